"""Corrections and intervals of the settings (task, graph, machine) that have measured rows of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.local import LocalCorrection
from a3gnn_surrogate.residual import ResidualModel
from a3gnn_surrogate.training_rows import OUTPUTS


class Corrected(NamedTuple):
    """The correction of predictions in a setting, each float64, shape (n_configs, n_outputs).

    Attributes:
        mean: Value to add.
        half_width: Half-width of the interval around it.
    """

    mean: Array
    half_width: Array


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
