"""The correction by a setting's own rows: a Gaussian process over the knobs on the learner's residuals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import KNOBS, PARALLEL_MODES, STATIC_POLICIES
from a3gnn_surrogate.columns import Array, Columns, cached_share, knob_values

#: Knobs whose inputs `knob_points` scales one by one.
_SCALED: tuple[str, ...] = (
    *("batch_size", "num_partitions", "bias_rate", "sampling_device", "num_workers", "cache_bytes"),
    *("parallel_mode", "feature_tier", "cache_policy"),
)
#: The others: each number is an input, and each choice that a search tries beside the default.
_OTHERS = tuple(knob for knob in KNOBS if knob.name not in _SCALED)
_CHOICES = tuple(
    (knob.name, value) for knob in _OTHERS if knob.scale == "choice" for value in knob.values if value != knob.default
)
_NUMBERS = tuple(knob for knob in _OTHERS if knob.scale != "choice")
#: The Gaussian process's inputs: knobs, scaled such that a unit step matters about equally in each. Guesses.
POINT_NAMES: tuple[str, ...] = (
    *("seeds", "parts", "bias", "device", "workers", "cache", *PARALLEL_MODES, "disk", "dynamic"),
    *(f"{name}={value}" for name, value in _CHOICES),
    *(knob.name for knob in _NUMBERS),
)
#: The kernel's length scale in these units. Guess.
_LENGTH_SCALE = 2.0


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """How the residuals of one output vary; in squares of its unit.

    Attributes:
        between_settings: Variance of the settings' means.
        within_setting: Variance over the knobs within a setting.
        noise: Variance of repeated measurements.
    """

    between_settings: float
    within_setting: float
    noise: float


@dataclass(frozen=True, slots=True)
class LocalCorrection:
    """The posterior mean of a Gaussian process per output: `constant + rbf_kernel(points) @ weights`.

    With a single row it is that row's residual, shrunk by the noise, and falls to the setting's mean away from it;
    with more rows it follows the knobs.

    Attributes:
        points: float64, shape (m, n_points): the setting's rows.
        constant: float64, shape (n_outputs,).
        weights: float64, shape (m, n_outputs).
    """

    points: Array
    constant: Array
    weights: Array

    @classmethod
    def fit(cls, points: Array, residuals: Array, variances: list[VarianceComponents]) -> Self:
        """Returns the correction fitted to `residuals` (m, n_outputs); NaN entries are left out."""
        similarity = rbf_kernel(points, points)
        constant, weights = np.zeros(len(variances)), np.zeros(residuals.shape)
        for j, v in enumerate(variances):
            known = np.isfinite(residuals[:, j])
            if not known.any():
                continue
            covariance = v.between_settings + v.within_setting * similarity[np.ix_(known, known)]
            covariance += v.noise * np.eye(int(known.sum()))
            alpha = np.linalg.solve(covariance, residuals[known, j])
            constant[j] = v.between_settings * alpha.sum()
            weights[known, j] = v.within_setting * alpha
        return cls(points, constant, weights)

    def predict(self, points: Array) -> Array:
        """Returns what to add at `points`, float64, shape (n, n_outputs)."""
        return self.constant + rbf_kernel(points, self.points) @ self.weights

    def to_dict(self) -> dict[str, Any]:
        """Returns the arrays as JSON types."""
        return {name: getattr(self, name).tolist() for name in LocalCorrection.__slots__}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the correction of `to_dict`."""
        return cls(**{name: np.array(fields[name], dtype=np.float64) for name in LocalCorrection.__slots__})


def knob_points(columns: Columns, graph: GraphCharacteristics) -> Array:
    """Returns `columns` as points, float64, shape (n_configs, n_points), columns `POINT_NAMES`."""
    modes = [columns["parallel_mode"] == mode for mode in PARALLEL_MODES]
    values: list[NDArray[Any]] = [
        np.log2(np.minimum(columns["batch_size"], max(graph.num_train, 1))) / 2,
        np.log2(columns["num_partitions"]) / 2,
        np.log2(columns["bias_rate"]) / 2,
        columns["sampling_device"] == "cuda",
        np.log2(columns["num_workers"]),
        2 * cached_share(columns, graph),
        *modes,
        1.5 * (columns["feature_tier"] == "disk"),
        ~np.isin(columns["cache_policy"], STATIC_POLICIES),
        *(columns[name] == value for name, value in _CHOICES),
        *(knob_values(knob, columns[knob.name]) / 2 for knob in _NUMBERS),
    ]
    return np.stack(values, axis=1).astype(np.float64)


def rbf_kernel(left: Array, right: Array) -> Array:
    """Returns the kernel exp(-d^2 / (2 length_scale^2)), float64, shape (len(left), len(right))."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / (2 * _LENGTH_SCALE**2)))
