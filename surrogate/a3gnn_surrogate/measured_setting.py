"""`MeasuredSetting`: the rows of one setting, from which training rows are made under any calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import Measurement, Metrics
from a3gnn.prediction import log_points
from a3gnn.setting import Setting
from a3gnn_surrogate.accuracy import is_reference
from a3gnn_surrogate.analytic import Work, analytic_metrics, expected_work
from a3gnn_surrogate.calibration import Calibration
from a3gnn_surrogate.columns import Array, as_columns
from a3gnn_surrogate.features import feature_matrix
from a3gnn_surrogate.known_curves import KnownCurves, Learnt
from a3gnn_surrogate.memory import training_peak
from a3gnn_surrogate.points import knob_points, setting_key, task_graph_key
from a3gnn_surrogate.references import ReferenceKey
from a3gnn_surrogate.training_rows import TrainingRows, analytic_outputs


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """Measurements of one setting by one probe of its machine, all with metrics.

    Attributes:
        setting: What was trained, on which graph and machine.
        columns: The configurations, canonical.
        work: Their expected work.
        measured: As in `TrainingRows`.
        stages: Measured seconds per mini-batch of sampling, gathering and training, float64, shape (n, 3).
    """

    setting: Setting
    columns: dict[str, NDArray[Any]]
    work: Work
    measured: Array
    stages: Array

    @classmethod
    def of(cls, rows: Sequence[Measurement], curves: KnownCurves, references: Mapping[ReferenceKey, float]) -> Self:
        """Returns the `rows`, which have metrics.

        Args:
            rows: Of one setting and probe.
            curves: What is known of learning in the setting, by all probes.
            references: Accuracies from which drops after a fixed number of epochs are counted.
        """
        setting, columns = rows[0].setting, as_columns([row.config for row in rows])
        found = [(row, row.metrics) for row in rows if row.metrics is not None]
        measured = [
            _measured(row, metrics, learnt, curves, references.get(_reference_key(row), np.nan))
            for (row, metrics), learnt in zip(found, curves.learnt(rows), strict=True)
        ]
        stages = [metrics.stage_seconds for _, metrics in found]
        return cls(
            setting=setting,
            columns=columns,
            work=expected_work(columns, setting),
            measured=np.array(measured),
            stages=np.array([[stage.sample, stage.gather, stage.train] for stage in stages]),
        )

    def __len__(self) -> int:
        return len(self.measured)

    def training_rows(self, calibration: Calibration) -> TrainingRows:
        """Returns the rows with the analytic model's predictions under `calibration`."""
        setting, count = self.setting, len(self)
        analytic = analytic_metrics(self.columns, setting, calibration, self.work)
        return TrainingRows(
            features=feature_matrix(self.columns, setting, analytic),
            points=knob_points(self.columns, setting),
            analytic=analytic_outputs(analytic),
            measured=self.measured,
            graphs=np.full(count, setting.graph.fingerprint),
            settings=np.full(count, setting_key(setting)),
            reference=is_reference(self.columns, setting.graph),
        )


def _reference_key(row: Measurement) -> ReferenceKey:
    return ReferenceKey(task_graph_key(row.setting.task, row.setting.graph), row.accuracy_budget)


def _measured(
    row: Measurement, metrics: Metrics, learnt: Learnt, curves: KnownCurves, fixed_epochs: float
) -> list[float]:
    """Returns the measured `OUTPUTS` of a row; a device peak of 0 means that there is no device.

    Args:
        row: The measurement.
        metrics: The row's.
        learnt: By its learning curve; one that was ended early counts as what it lets expect.
        curves: Those of its setting.
        fixed_epochs: The accuracy that its own, after a fixed number of epochs, is compared with.
    """
    hardware = row.setting.hardware
    above_idle = training_peak(metrics, hardware) - hardware.profile.idle_host_bytes
    sizes = (metrics.throughput_epochs_per_s, metrics.peak_device_bytes, above_idle)
    logs = [float(np.log(value)) if value > 0 else np.nan for value in sizes]
    if metrics.val_accuracy is not None:  # measurement version 2
        return [*logs, float(log_points(fixed_epochs - metrics.val_accuracy)), np.nan]
    seconds = curves.default_seconds()
    if curves.reference is None or seconds is None:
        return [*logs, np.nan, np.nan]
    ratio = learnt.expected_s * metrics.throughput_epochs_per_s / (seconds * curves.throughput)
    drop = curves.reference.val_accuracy - learnt.expected_accuracy
    return [*logs, float(log_points(drop)), float(np.log(ratio))]
