"""Corrections and intervals of the settings (task, graph, machine) that have measured rows of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from a3gnn.measurement import Measurement
from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.conformal import half_width, row_folds
from a3gnn_surrogate.local import LocalCorrection
from a3gnn_surrogate.residual import ResidualModel, refit
from a3gnn_surrogate.training_rows import OUTPUTS, TrainingRows, reference_accuracies

# Guesses.
#: Rows from which a setting of the target graph has half-widths of its own.
_MIN_OWN_ROWS = 8
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class SettingCorrections:
    """Corrections and half-widths by `setting_key`.

    Attributes:
        corrections: What each setting's rows add to the residual models.
        own_half_widths: Half-widths of settings with enough rows for their own, float64, shape (n_outputs,).
    """

    corrections: Mapping[str, LocalCorrection]
    own_half_widths: Mapping[str, Array]

    def correction(self, key: str, points: Array) -> Array:
        """Returns what the setting adds at `points`, float64, shape (n, n_outputs); 0 for a setting without rows."""
        if key not in self.corrections:
            return np.zeros((len(points), len(OUTPUTS)))
        return self.corrections[key].predict(points)

    def half_widths(self, key: str, models: Sequence[ResidualModel]) -> Array:
        """Returns the half-widths of the setting's intervals, float64, shape (n_outputs,)."""
        if key in self.own_half_widths:
            return self.own_half_widths[key]
        if key in self.corrections:
            return np.array([model.half_width_default_known for model in models])
        return np.array([model.half_width_unseen for model in models])

    def to_dict(self) -> dict[str, Any]:
        """Returns the corrections and half-widths as JSON types."""
        return {
            "corrections": {key: correction.to_dict() for key, correction in self.corrections.items()},
            "own_widths": {key: widths.tolist() for key, widths in self.own_half_widths.items()},
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the corrections of `to_dict`."""
        corrections = {key: LocalCorrection.from_dict(value) for key, value in fields["corrections"].items()}
        return cls(corrections, {key: np.array(value) for key, value in fields["own_widths"].items()})


def latest_reference_accuracies(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Returns the reference accuracy by `task_graph_key`; of several budgets, that of the largest."""
    by_budget = sorted(reference_accuracies(measurements).items(), key=lambda item: item[0].accuracy_budget)
    return {key.task_and_graph: accuracy for key, accuracy in by_budget}


def fit_setting_corrections(
    rows: TrainingRows,
    models: Sequence[ResidualModel],
    weights: Array,
    target: str | None,
    coverage: float,
    seed: int,
) -> SettingCorrections:
    """Returns the corrections of all settings, and own half-widths of those of graph `target` with enough rows."""
    keys = [str(key) for key in np.unique(rows.settings)]
    corrections = {key: _correction(rows.take(rows.settings == key), models) for key in keys}
    own = {
        key: _own_half_widths(rows, key, models, weights, coverage, seed)
        for key in keys
        if np.sum((rows.settings == key) & (rows.graphs == target)) >= _MIN_OWN_ROWS
    }
    return SettingCorrections(corrections, own)


def _correction(own: TrainingRows, models: Sequence[ResidualModel]) -> LocalCorrection:
    return LocalCorrection.fit(own.points, _unexplained(own, models), [model.variances for model in models])


def _unexplained(own: TrainingRows, models: Sequence[ResidualModel]) -> Array:
    """Returns what the analytic model and the residual models miss, float64, shape (n, n_outputs)."""
    predicted = np.stack([model.predict(own.features) for model in models], axis=1)
    return own.measured - own.analytic - predicted


def _own_half_widths(
    rows: TrainingRows, key: str, models: Sequence[ResidualModel], weights: Array, coverage: float, seed: int
) -> Array:
    """Returns half-widths from the errors on the setting's own rows, each fold predicted from all other rows.

    A quantile of few errors is uncertain, so it is shrunk towards the half-width learnt from other graphs: halfway at
    the minimum number of rows.
    """
    own = np.flatnonzero(rows.settings == key)
    errors = np.empty((len(own), len(OUTPUTS)))
    for held in row_folds(len(own), _FOLDS, seed):
        kept = np.setdiff1d(np.arange(len(rows)), own[held])
        others = [refit(model, rows.take(kept), j, weights[kept]) for j, model in enumerate(models)]
        correction = _correction(rows.take(own[~held]), others)
        held_rows = rows.take(own[held])
        errors[held] = _unexplained(held_rows, others) - correction.predict(held_rows.points)
    graphs = rows.graphs[own]
    widths = np.array([half_width(errors[:, j], graphs, coverage) for j in range(len(OUTPUTS))])
    general = np.array([model.half_width_default_known for model in models])
    trust = len(own) / (len(own) + _MIN_OWN_ROWS)
    return np.where(np.isfinite(widths), trust * widths + (1 - trust) * general, general)
