"""Corrections and intervals of the settings (task, graph, machine) that have measured rows of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.features import learning_inputs
from a3gnn_surrogate.local import LocalCorrection, half_width
from a3gnn_surrogate.physics.stage_seconds import Calibrations
from a3gnn_surrogate.residual import ResidualModel, group_folds, refit
from a3gnn_surrogate.rows import LEARNED, OUTPUTS, THROUGHPUT, RowSource, TrainingRows, own_calibration, relevant_inputs


class Corrected(NamedTuple):
    """The correction of predictions in a setting, each float64, shape (n_configs, n_outputs)."""

    mean: Array  # value to add
    half_width: Array  # half-width of the interval around it


@dataclass(frozen=True, slots=True)
class SettingCorrections:
    """Corrections and the scales of their intervals, by `setting_key`.

    Attributes:
        corrections: Correction of the residual models by each setting's rows.
        own_scales: Half-widths in standard deviations for settings with enough rows of their own, float64, shape
            (n_outputs,).
    """

    corrections: Mapping[str, LocalCorrection]
    own_scales: Mapping[str, Array]

    def correct(self, key: str, points: Array, models: Sequence[ResidualModel]) -> Corrected:
        """Returns the correction at `points`; 0 for a setting without rows, with the width of an unseen one."""
        if key not in self.corrections:
            widths = np.array([model.scale_unseen * model.variances.deviation for model in models])
            return Corrected(np.zeros((len(points), len(OUTPUTS))), np.tile(widths, (len(points), 1)))
        mean, deviation = self.corrections[key].predict(points)
        factors = np.stack([model.kinds.at(points) for model in models], axis=1)
        return Corrected(mean, self._scales(key, models) * deviation * factors)

    def _scales(self, key: str, models: Sequence[ResidualModel]) -> Array:
        """Returns the scales of a setting with rows, float64, shape (n_outputs,)."""
        if key in self.own_scales:
            return self.own_scales[key]
        return general_scales(self.corrections[key], models)

    def to_dict(self) -> dict[str, Any]:
        """Returns the corrections and scales as JSON types."""
        return {
            "corrections": {key: correction.to_dict() for key, correction in self.corrections.items()},
            "own_scales": {key: scales.tolist() for key, scales in self.own_scales.items()},
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the corrections of `to_dict`."""
        corrections = {key: LocalCorrection.from_dict(value) for key, value in fields["corrections"].items()}
        return cls(corrections, {key: np.array(value) for key, value in fields["own_scales"].items()})


def general_scales(correction: LocalCorrection, models: Sequence[ResidualModel]) -> Array:
    """Returns the scales that other settings give to one with rows, float64, shape (n_outputs,)."""
    measured = np.any(correction.known, axis=0).tolist()
    pairs = zip(models, measured, strict=True)
    return np.array([model.scale_default_known if known else model.scale_unseen for model, known in pairs])


#: Rows from which a setting has scales of its own. Guess.
_MIN_OWN_ROWS = 8


@dataclass(frozen=True, slots=True)
class CorrectionFit:
    """Fits corrections to the errors of the residual models.

    Attributes:
        models: The residual models, fitted to them.
        weights: Sample weights of the rows.
        noise: Relative standard deviation of one trial's throughput, by the machine's fingerprint; machines without
            replicates are left out.
        coverage: Share of measurements that intervals should cover.
        seed: Decides folds.
    """

    source: RowSource
    models: Sequence[ResidualModel]
    weights: Array
    noise: Mapping[str, float]
    coverage: float
    seed: int

    def own_calibrations(self, target: str | None) -> Calibrations:
        """Returns the calibrations, refined by their own rows for the settings of graph `target`; None: for all."""
        found = self.source.calibrations()
        for key in self._keys(target) if self.source.physics else ():
            found = self._refined(found, key)
        return found

    def corrections(self, calibrations: Calibrations, target: str | None) -> SettingCorrections:
        """Returns the corrections of all settings, with own scales for those of graph `target`; None: for all."""
        rows = {key: self.source.setting_rows(key, calibrations) for key in self.source.settings}
        corrections = {
            key: self._correction(key, own, self.models, self.source.failed_rows(key, calibrations))
            for key, own in rows.items()
        }
        own = {
            key: self._own_scales(key, corrections[key])
            for key in self._keys(target)
            if len(rows[key]) >= _MIN_OWN_ROWS
        }
        return SettingCorrections(corrections, own)

    def _keys(self, target: str | None) -> list[str]:
        settings = self.source.settings
        return [key for key in settings if target in (None, settings[key][0].setting.graph.fingerprint)]

    def _refined(self, calibrations: Calibrations, key: str, kept: NDArray[np.bool_] | None = None) -> Calibrations:
        settings = self.source.settings[key]
        own = own_calibration(settings, calibrations.of(settings[0].asked), kept)
        if own is None:
            return calibrations
        return dataclasses.replace(calibrations, own={**calibrations.own, key: own})

    def _correction(
        self, key: str, own: TrainingRows, models: Sequence[ResidualModel], failed: TrainingRows | None = None
    ) -> LocalCorrection:
        """Returns the correction by the rows `own` of a setting, and by its trials that broke the memory limit."""
        variances = [model.variances for model in models]
        machine = self.source.settings[key][0].setting.hardware.fingerprint
        if machine in self.noise:
            noise = self.noise[machine] ** 2
            variances[THROUGHPUT] = dataclasses.replace(variances[THROUGHPUT], noise=noise)
        residuals = one_per_curve(own.points, _unexplained(own, models))
        found = LocalCorrection.fit(own.points, residuals, variances, relevant_inputs(own.points))
        if failed is None or not len(failed):
            return found
        beyond = expected_beyond(_unexplained(failed, models), *found.predict(failed.points))
        points, residuals = np.concatenate([own.points, failed.points]), np.concatenate([residuals, beyond])
        return LocalCorrection.fit(points, residuals, variances, relevant_inputs(points))

    def _own_scales(self, key: str, correction: LocalCorrection) -> Array:
        """Returns scales from the errors on the setting's own rows, each fold predicted from all other rows.

        Folds hold out whole learning curves, because a row that shares its curve with a fitted one has nearly no error.
        A quantile of few errors is uncertain, so it is shrunk towards the scale learned from other graphs: halfway at
        the minimum number of errors, below which the latter is taken.
        """
        rows, general = self.source.rows(), self.source.calibrations()
        own = np.flatnonzero(rows.settings == key)
        scores = np.empty((len(own), len(OUTPUTS)))
        for held in group_folds(_curves(rows.points[own]), self.seed):
            kept = np.setdiff1d(np.arange(len(rows)), own[held])
            others = [refit(model, rows.take(kept), j, self.weights[kept]) for j, model in enumerate(self.models)]
            calibrations = self._refined(general, key, ~held) if self.source.physics else general
            seen = self.source.setting_rows(key, calibrations)
            mean, deviation = self._correction(key, seen.take(~held), others).predict(seen.points[held])
            factors = np.stack([model.kinds.at(seen.points[held]) for model in self.models], axis=1)
            errors = one_per_curve(seen.points[held], _unexplained(seen.take(held), others)) - mean
            scores[held] = errors / (deviation * factors)
        graphs, counts = rows.graphs[own], np.isfinite(scores).sum(axis=0)
        expected, trust = general_scales(correction, self.models), counts / (counts + _MIN_OWN_ROWS)
        found = [half_width(scores[:, j], graphs, self.coverage) for j in range(len(OUTPUTS))]
        widths = np.where(counts < _MIN_OWN_ROWS, expected, found)
        return np.asarray(trust * widths + (1 - trust) * expected)


def _unexplained(own: TrainingRows, models: Sequence[ResidualModel]) -> Array:
    """Returns the errors of the analytic model with the residual models, float64, shape (n, n_outputs)."""
    predicted = np.stack([model.predict(own.features) for model in models], axis=1)
    return own.measured - own.analytic - predicted


def expected_beyond(bound: Array, mean: Array, deviation: Array) -> Array:
    """Returns the expectations of normal values that are known to exceed `bound`, float64, same shape; NaN stays.

    The expected value stands in for a censored one: the first step of Buckley and James, "Linear Regression with
    Censored Data" (1979), section 2.

    Args:
        bound: Lower bounds, float64, any shape.
        mean: Means without that knowledge, same shape.
        deviation: Standard deviations, > 0, same shape.
    """
    standard = (bound - mean) / deviation
    log_density = -0.5 * (standard**2 + np.log(2 * np.pi))
    return np.asarray(mean + deviation * np.exp(log_density - log_ndtr(-standard)))


def _curves(points: Array) -> NDArray[np.int64]:
    """Returns a number per learning curve for each of `points`, int64, shape (n,)."""
    return np.unique(learning_inputs(points), axis=0, return_inverse=True)[1].reshape(-1)


def one_per_curve(points: Array, residuals: Array) -> Array:
    """Returns `residuals` (n, n_outputs) of one setting, with those of `LEARNED` once per learning curve.

    Rows that share a curve do not measure it repeatedly. The first of them gets their mean, and the others NaN.
    """
    curves, found = _curves(points), residuals.copy()
    for output in LEARNED:
        known = np.flatnonzero(np.isfinite(residuals[:, output]))
        _, first, curve = np.unique(curves[known], return_index=True, return_inverse=True)
        found[:, output] = np.nan
        found[known[first], output] = np.bincount(curve, residuals[known, output]) / np.bincount(curve)
    return found
