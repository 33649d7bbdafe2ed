"""The residual of one channel: a level a setting, a shape that boosted trees learn, and how far both may be off."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn_surrogate.conformal import graph_folds, half_width
from a3gnn_surrogate.learner import Features, Learner, NoLearner
from a3gnn_surrogate.local import LocalCorrection, Variances
from a3gnn_surrogate.rows import CHANNELS, Rows
from a3gnn_surrogate.volume import Array

#: Fewer rows than this teach no shape.
_LEAST_ROWS = 12
#: A setting with fewer rows than this has no mean to take its shape from.
_LEAST_SETTING_ROWS = 3
#: Share of the variance within a setting that is taken for noise.
_NOISE_SHARE = 0.1
#: Errors on rows of the one known graph say little of another graph.
_SINGLE_GRAPH_WIDENING = 2.0

# fmt: off
#: Standard deviations before anything is measured, and half-widths at 90 %.
_PRIOR = {
    #                           level  shape  noise   cold  warm
    "throughput_epochs_per_s": (0.7,   0.3,   0.05,   1.4,  0.7),
    "peak_device_bytes":       (0.25,  0.15,  0.02,   0.5,  0.3),
    "peak_host_bytes":         (0.25,  0.15,  0.02,   0.5,  0.3),
    "accuracy_drop":           (0.01,  0.02,  0.004,  0.08, 0.05),
}
# fmt: on
_PRIOR_COVERAGE = 0.9


@dataclass(frozen=True, slots=True)
class Residual:
    """What is known of one channel's residual.

    Attributes:
        learner: Predicts the shape: the residual less its setting's mean.
        level: Mean of the settings' levels; added everywhere.
        variances: How levels, shapes and repetitions vary.
        cold: Half-width where nothing of the setting is measured.
        warm: Half-width where the setting's default configuration is.
    """

    learner: Learner
    level: float
    variances: Variances
    cold: float
    warm: float

    def predict(self, features: Features) -> Array:
        """Returns the residual before any local correction, float64, shape (n,)."""
        return self.level + self.learner.predict(features)


def prior(channel: str, coverage: float) -> Residual:
    """Returns the residual of a channel that was hardly measured: none, with wide intervals."""
    level, shape, noise, cold, warm = _PRIOR[channel]
    # As for a normal error, whose tail is about exp(-width^2): wider as less is left out.
    wider = float(np.sqrt(np.log(1 - coverage) / np.log(1 - _PRIOR_COVERAGE)))
    return Residual(NoLearner(), 0.0, Variances(level**2, shape**2, noise**2), cold * wider, warm * wider)


def fit_residual(
    rows: Rows, channel: int, weights: Array, make: Callable[[], Learner], coverage: float, seed: int
) -> Residual:
    """Returns the residual of `channel`, fitted to the rows that have it; the prior where they are too few.

    Folds hold out whole graphs, both to choose the learner's size and to find the intervals.
    """
    rows, residual, weights = _known(rows, channel, weights)
    start = prior(CHANNELS[channel], coverage)
    if len(rows) < _LEAST_ROWS:
        return start
    shape, taught = _centred(residual, rows.settings)
    folds = graph_folds(rows.graphs[taught], seed)
    learner = make().tune(rows.features[taught], shape[taught], weights[taught], folds)
    errors = np.empty(len(rows))
    for held in graph_folds(rows.graphs, seed):
        level = _fit_level(residual[~held], rows.settings[~held])
        learner.fit(rows.features[taught & ~held], shape[taught & ~held], weights[taught & ~held])
        errors[held] = residual[held] - level - learner.predict(rows.features[held])
    learner.fit(rows.features[taught], shape[taught], weights[taught])
    level = _fit_level(residual, rows.settings)
    variances = _variances(errors, rows.settings, start.variances)
    cold = half_width(errors, rows.graphs, coverage)
    warm = half_width(_after_reference(errors, rows, variances), rows.graphs, coverage)
    if len(np.unique(rows.graphs)) == 1:
        cold, warm = max(cold * _SINGLE_GRAPH_WIDENING, start.cold), warm * _SINGLE_GRAPH_WIDENING
    return Residual(learner, level, variances, cold, warm if np.isfinite(warm) else start.warm)


def refit(residual: Residual, rows: Rows, channel: int, weights: Array) -> Residual:
    """Returns `residual` fitted to other rows, with the learner's size, the variances and the widths it has."""
    rows, values, weights = _known(rows, channel, weights)
    shape, taught = _centred(values, rows.settings)
    learner = copy.deepcopy(residual.learner)
    learner.fit(rows.features[taught], shape[taught], weights[taught])
    return dataclasses.replace(residual, learner=learner, level=_fit_level(values, rows.settings))


def _known(rows: Rows, channel: int, weights: Array) -> tuple[Rows, Array, Array]:
    residual = rows.measured[:, channel] - rows.physics[:, channel]
    known = np.isfinite(residual)
    return rows.take(known), residual[known], weights[known]


def _centred(residual: Array, settings: NDArray[np.str_]) -> tuple[Array, NDArray[np.bool_]]:
    """Returns the residual less its setting's mean, and which rows have neighbours enough for that mean."""
    _, setting, counts = np.unique(settings, return_inverse=True, return_counts=True)
    means = np.bincount(setting, residual) / counts
    return residual - means[setting], counts[setting] >= _LEAST_SETTING_ROWS


def _fit_level(residual: Array, settings: NDArray[np.str_]) -> float:
    """Returns the mean of the settings' means; 0, the analytic model's own level, without rows."""
    if not len(residual):
        return 0.0
    _, setting, counts = np.unique(settings, return_inverse=True, return_counts=True)
    return float(np.mean(np.bincount(setting, residual) / counts))


def _variances(errors: Array, settings: NDArray[np.str_], least: Variances) -> Variances:
    """Returns the variance components of held-out `errors`; the level's stays the prior's with few settings."""
    centred, taught = _centred(errors, settings)
    within = float(np.mean(centred[taught] ** 2)) if taught.any() else least.shape
    _, setting, counts = np.unique(settings, return_inverse=True, return_counts=True)
    means = np.bincount(setting, errors) / counts
    level = float(np.mean(means**2)) if len(means) >= _LEAST_SETTING_ROWS else least.level
    noise = max(_NOISE_SHARE * within, least.noise / 4)
    return Variances(max(level, within / 4, 1e-9), max(within - noise, noise), noise)


def _after_reference(errors: Array, rows: Rows, variances: Variances) -> Array:
    """Returns the errors that remain once each setting's default configuration is known, NaN for that row itself.

    Where it was not measured, the setting's first row stands for it.
    """
    left = np.full(len(errors), np.nan)
    for setting in np.unique(rows.settings):
        own = np.flatnonzero(rows.settings == setting)
        one = own[[int(rows.reference[own].argmax())]]
        correction = LocalCorrection.fit(rows.points[one], errors[one, None], [variances])
        rest = own[own != one[0]]
        left[rest] = errors[rest] - correction.predict(rows.points[rest])[:, 0]
    return left
