"""`MeasuredSetting`: the rows of one setting, from which training rows are made under any calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import Failure, Measurement, Metrics
from a3gnn.prediction import log_points
from a3gnn.setting import Setting, setting_key, task_graph_key
from a3gnn_surrogate.accuracy import is_reference
from a3gnn_surrogate.analytic import Work, analytic_metrics, expected_work
from a3gnn_surrogate.calibration import Calibration
from a3gnn_surrogate.columns import Array, as_columns
from a3gnn_surrogate.features import feature_matrix
from a3gnn_surrogate.known_curves import KnownCurves, Learnt
from a3gnn_surrogate.memory import training_peak
from a3gnn_surrogate.points import kernel_points
from a3gnn_surrogate.training_rows import HOST_BYTES, OUTPUTS, TrainingRows, analytic_outputs


class ReferenceKey(NamedTuple):
    """Key that two accuracies after a fixed number of epochs must share to be compared.

    Attributes:
        task_and_graph: Their `task_graph_key`.
        accuracy_budget: Epochs requested for the trials.
    """

    task_and_graph: str
    accuracy_budget: int


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """Measurements of one setting by one probe of its machine: all with metrics, or all beyond the host's limit.

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
        """Returns the measured setting of `rows`, which all have metrics.

        Args:
            rows: Measurements of one setting by one probe.
            curves: Known curves of the setting, from all probes.
            references: Accuracies from which drops after a fixed number of epochs are counted.
        """
        setting, columns = rows[0].setting, as_columns([row.config for row in rows])
        found = [(row, row.metrics) for row in rows if row.metrics is not None]
        measured = [
            _measured(row, metrics, learned, curves, references.get(_reference_key(row), np.nan))
            for (row, metrics), learned in zip(found, curves.learned(rows), strict=True)
        ]
        stages = [metrics.stage_seconds for _, metrics in found]
        return cls(
            setting=setting,
            columns=columns,
            work=expected_work(columns, setting),
            measured=np.array(measured),
            stages=np.array([[stage.sample, stage.gather, stage.train] for stage in stages]),
        )

    @classmethod
    def of_failures(cls, rows: Sequence[Measurement]) -> Self:
        """Returns `rows` of one setting by one probe that broke the host's memory limit, with lower bounds of peaks."""
        setting, columns = rows[0].setting, as_columns([row.config for row in rows])
        measured = np.full((len(rows), len(OUTPUTS)), np.nan)
        for place, row in enumerate(rows):
            assert isinstance(row.outcome, Failure)
            above_idle = row.outcome.limit - setting.hardware.profile.idle_host_bytes
            measured[place, HOST_BYTES] = np.log(above_idle) if above_idle > 0 else np.nan
        return cls(setting, columns, expected_work(columns, setting), measured, np.full((len(rows), 3), np.nan))

    def __len__(self) -> int:
        return len(self.measured)

    def training_rows(self, calibration: Calibration) -> TrainingRows:
        """Returns the rows with the analytic model's predictions under `calibration`."""
        setting, count = self.setting, len(self)
        analytic = analytic_metrics(self.columns, setting, calibration, self.work)
        return TrainingRows(
            features=feature_matrix(self.columns, setting, analytic),
            points=kernel_points(self.columns, setting),
            analytic=analytic_outputs(analytic),
            measured=self.measured,
            graphs=np.full(count, setting.graph.fingerprint),
            settings=np.full(count, setting_key(setting)),
            reference=is_reference(self.columns, setting.graph),
        )


def _reference_key(row: Measurement) -> ReferenceKey:
    return ReferenceKey(task_graph_key(row.setting.task, row.setting.graph), row.accuracy_budget)


def _measured(
    row: Measurement, metrics: Metrics, learned: Learnt, curves: KnownCurves, fixed_epochs: float
) -> list[float]:
    """Returns the measured `OUTPUTS` of a row; a device peak of 0 means that there is no device.

    Args:
        row: The measurement.
        metrics: The metrics of the row.
        learned: What the row learned; a curve that ended early counts with its expectation.
        curves: The curves of its setting.
        fixed_epochs: The reference for its accuracy after a fixed number of epochs.
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
    ratio = learned.expected_s * metrics.throughput_epochs_per_s / (seconds * curves.throughput)
    drop = curves.reference.val_accuracy - learned.expected_accuracy
    return [*logs, float(log_points(drop)), float(np.log(ratio))]


def by_setting(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Returns the measurements of each setting, by `setting_key`, in their order."""
    groups: dict[str, list[Measurement]] = {}
    for row in measurements:
        groups.setdefault(setting_key(row.setting), []).append(row)
    return groups


def reference_accuracies(measurements: Iterable[Measurement]) -> dict[ReferenceKey, float]:
    """Returns the validation accuracies from which drops after a fixed number of epochs are counted.

    Each is the mean of the rows that train on the default configuration's mini-batches, or if there are none, the
    median of all rows. Rows of measurement version 3 have no such accuracy: their curves are in `KnownCurves`.
    """
    default: dict[ReferenceKey, list[float]] = {}
    every: dict[ReferenceKey, list[float]] = {}
    for row in measurements:
        if row.metrics is None or row.metrics.val_accuracy is None or not np.isfinite(row.metrics.val_accuracy):
            continue
        key = ReferenceKey(task_graph_key(row.setting.task, row.setting.graph), row.accuracy_budget)
        every.setdefault(key, []).append(row.metrics.val_accuracy)
        if is_reference(as_columns([row.config]), row.setting.graph)[0]:
            default.setdefault(key, []).append(row.metrics.val_accuracy)
    return {key: float(np.mean(default[key])) if key in default else float(np.median(every[key])) for key in every}


def latest_reference_accuracies(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Returns the default's validation accuracy by `task_graph_key`.

    It comes from a learning curve if there is one, otherwise from the trials with the most epochs.
    """
    by_budget = sorted(reference_accuracies(measurements).items(), key=lambda item: item[0].accuracy_budget)
    found = {key.task_and_graph: accuracy for key, accuracy in by_budget}
    for group in by_setting(measurements).values():
        reference = KnownCurves.of(group).reference
        if reference is not None:
            found[task_graph_key(group[0].setting.task, group[0].setting.graph)] = reference.val_accuracy
    return found
