"""`RowSource`: training rows of measurements, with any graphs held out of the calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from a3gnn.figures import Reference
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind, Measurement
from a3gnn_surrogate.calibrate import general_calibrations
from a3gnn_surrogate.calibration import Calibrations
from a3gnn_surrogate.features import PLAIN_FEATURES
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.measured_setting import MeasuredSetting, by_setting, reference_accuracies
from a3gnn_surrogate.training_rows import TrainingRows, no_rows


class RowSource:
    """Measurements, as training rows.

    Args:
        measurements: Measurements of any settings.
        physics: Whether rows carry the analytic model.
        judged_by: Known references by `setting_key` (`KnownCurves.of`).

    Attributes:
        settings: The rows of each setting, one entry per probe of its machine, by `setting_key`.
        curves: Known curves by `setting_key`.
        physics: Whether rows carry the analytic model; without it, it predicts 0.
    """

    def __init__(
        self,
        measurements: Sequence[Measurement],
        physics: bool = True,
        judged_by: Mapping[str, Reference] | None = None,
    ) -> None:
        done = [row for row in measurements if row.metrics is not None]
        references, groups = reference_accuracies(done), by_setting(done)
        self.curves = {key: KnownCurves.of(rows, (judged_by or {}).get(key)) for key, rows in groups.items()}
        self.settings = {
            key: [MeasuredSetting.of(probed, self.curves[key], references) for probed in _by_probe(rows)]
            for key, rows in groups.items()
        }
        self._failed = {
            key: [MeasuredSetting.of_failures(probed) for probed in _by_probe(rows)]
            for key, rows in by_setting(filter(_broke_the_hosts_limit, measurements)).items()
        }
        self.physics = physics
        self._calibrations: dict[frozenset[str], Calibrations] = {}
        self._rows: dict[frozenset[str], TrainingRows] = {}

    def calibrations(self, without: frozenset[str] = frozenset()) -> Calibrations:
        """Returns the general calibrations by all graphs except the fingerprints `without`."""
        if not self.physics:
            return Calibrations()
        if without not in self._calibrations:
            every = (one for settings in self.settings.values() for one in settings)
            kept = [one for one in every if one.setting.graph.fingerprint not in without]
            self._calibrations[without] = general_calibrations(kept)
        return self._calibrations[without]

    def rows(self, without: frozenset[str] = frozenset()) -> TrainingRows:
        """Returns all rows, always in the same order, calibrated by all graphs except `without`."""
        if without not in self._rows:
            calibrations = self.calibrations(without)
            parts = [self.setting_rows(key, calibrations) for key in self.settings]
            self._rows[without] = _joined(parts) if parts else no_rows()
        return self._rows[without]

    def setting_rows(self, key: str, calibrations: Calibrations) -> TrainingRows:
        """Returns the rows of the setting `key` under `calibrations`."""
        return self._training_rows(self.settings[key], calibrations)

    def failed_rows(self, key: str, calibrations: Calibrations) -> TrainingRows:
        """Returns the trials of the setting `key` that broke the host's limit; `measured` has lower bounds of peaks."""
        return self._training_rows(self._failed.get(key, []), calibrations)

    def _training_rows(self, settings: Sequence[MeasuredSetting], calibrations: Calibrations) -> TrainingRows:
        rows = _joined([no_rows(), *(one.training_rows(calibrations.of(one.setting)) for one in settings)])
        return rows if self.physics else rows.without_analytic(len(PLAIN_FEATURES))


def _broke_the_hosts_limit(row: Measurement) -> bool:
    """Returns whether a trial broke the host's memory limit; with a device, the limit may be that of the device."""
    outcome = row.outcome
    if row.setting.hardware.has_device or not isinstance(outcome, Failure):
        return False
    return outcome.kind is FailureKind.OUT_OF_MEMORY and outcome.limit > 0


def _by_probe(rows: Sequence[Measurement]) -> list[list[Measurement]]:
    groups: dict[Hardware, list[Measurement]] = {}
    for row in rows:
        groups.setdefault(row.setting.hardware, []).append(row)
    return list(groups.values())


def _joined(parts: Sequence[TrainingRows]) -> TrainingRows:
    return TrainingRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in TrainingRows.__slots__))
