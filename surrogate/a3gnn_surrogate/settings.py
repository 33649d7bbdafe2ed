"""What is known of the settings (task, graph, machine) that have rows of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from a3gnn.measurement import Measurement
from a3gnn_surrogate.conformal import half_width, row_folds
from a3gnn_surrogate.local import LocalCorrection
from a3gnn_surrogate.residual import Residual, refit
from a3gnn_surrogate.rows import CHANNELS, Rows, reference_accuracies
from a3gnn_surrogate.volume import Array

#: A target with as many rows has intervals of its own.
_LEAST_OWN_ROWS = 8
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Settings:
    """Corrections and half-widths by `setting_key`.

    Attributes:
        corrections: What each setting's rows add to the residuals.
        own_widths: Half-widths, float64, shape (n_channels,), of settings with rows enough for their own.
    """

    corrections: Mapping[str, LocalCorrection]
    own_widths: Mapping[str, Array]

    def correction(self, key: str, points: Array) -> Array:
        """Returns what the setting adds at `points`, float64, shape (n, n_channels); 0 where nothing is known."""
        if key not in self.corrections:
            return np.zeros((len(points), len(CHANNELS)))
        return self.corrections[key].predict(points)

    def widths(self, key: str, residuals: Sequence[Residual]) -> Array:
        """Returns the half-widths of the setting's intervals, float64, shape (n_channels,)."""
        if key in self.own_widths:
            return self.own_widths[key]
        warm = key in self.corrections
        return np.array([residual.warm if warm else residual.cold for residual in residuals])

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as JSON types."""
        return {
            "corrections": {key: correction.to_dict() for key, correction in self.corrections.items()},
            "own_widths": {key: widths.tolist() for key, widths in self.own_widths.items()},
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the settings of `to_dict`."""
        corrections = {key: LocalCorrection.from_dict(value) for key, value in fields["corrections"].items()}
        return cls(corrections, {key: np.array(value) for key, value in fields["own_widths"].items()})


def latest_references(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Returns the reference accuracies by `learning_setting`, of the largest accuracy budget that each was given."""
    by_budget = sorted(reference_accuracies(measurements).items(), key=lambda item: item[0][1])
    return {learning: accuracy for (learning, _), accuracy in by_budget}


def fit_settings(
    rows: Rows, residuals: Sequence[Residual], weights: Array, target: str | None, coverage: float, seed: int
) -> Settings:
    """Returns the corrections of all settings, and own half-widths for those of `target` that have rows enough."""
    keys = [str(key) for key in np.unique(rows.settings)]
    corrections = {key: _correction(rows.take(rows.settings == key), residuals) for key in keys}
    own = {
        key: _own_widths(rows, key, residuals, weights, coverage, seed)
        for key in keys
        if np.sum((rows.settings == key) & (rows.graphs == target)) >= _LEAST_OWN_ROWS
    }
    return Settings(corrections, own)


def _correction(own: Rows, residuals: Sequence[Residual]) -> LocalCorrection:
    return LocalCorrection.fit(own.points, _left(own, residuals), [residual.variances for residual in residuals])


def _left(own: Rows, residuals: Sequence[Residual]) -> Array:
    predicted = np.stack([residual.predict(own.features) for residual in residuals], axis=1)
    return own.measured - own.physics - predicted


def _own_widths(
    rows: Rows, key: str, residuals: Sequence[Residual], weights: Array, coverage: float, seed: int
) -> Array:
    """Returns half-widths from the errors on the setting's own rows, each fold predicted from all other rows.

    The quantile of a handful of errors is itself uncertain: it is drawn towards the other graphs' width, halfway at
    the least number of rows.
    """
    own = np.flatnonzero(rows.settings == key)
    errors = np.empty((len(own), len(CHANNELS)))
    for held in row_folds(len(own), _FOLDS, seed):
        kept = np.setdiff1d(np.arange(len(rows)), own[held])
        others = [refit(residual, rows.take(kept), j, weights[kept]) for j, residual in enumerate(residuals)]
        correction = _correction(rows.take(own[~held]), others)
        ahead = rows.take(own[held])
        errors[held] = _left(ahead, others) - correction.predict(ahead.points)
    graphs = rows.graphs[own]
    widths = np.array([half_width(errors[:, j], graphs, coverage) for j in range(len(CHANNELS))])
    warm = np.array([residual.warm for residual in residuals])
    trust = len(own) / (len(own) + _LEAST_OWN_ROWS)
    return np.where(np.isfinite(widths), trust * widths + (1 - trust) * warm, warm)
