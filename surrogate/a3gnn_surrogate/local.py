"""What a setting's own rows add: a Gaussian process over the knobs on what the learner leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import PARALLEL_MODES, STATIC_POLICIES
from a3gnn_surrogate.columns import Columns, cached_share
from a3gnn_surrogate.volume import Array

#: Knobs in steps that matter about alike, which is the kernel's unit of length.
POINT_NAMES: tuple[str, ...] = (
    *("seeds", "parts", "bias", "device", "workers", "cache", *PARALLEL_MODES, "disk"),
    *("dynamic", "proximity", "blocks", "isolated"),
)
#: Kernel's length in those steps.
_LENGTH = 2.0


@dataclass(frozen=True, slots=True)
class Variances:
    """How a channel's residuals vary; squares of logarithms, or of accuracy.

    Attributes:
        level: Of the settings' means.
        shape: Of what depends on the knobs within a setting.
        noise: Of repeated measurements.
    """

    level: float
    shape: float
    noise: float


@dataclass(frozen=True, slots=True)
class LocalCorrection:
    """The posterior mean of a Gaussian process for each channel: `constant + similarity(points) @ weights`.

    With a single row it is that row's residual, shrunk by the noise, and fades to the setting's level away from it;
    with more it follows the knobs.

    Attributes:
        points: float64, shape (m, n_points): the setting's rows.
        constant: float64, shape (c,).
        weights: float64, shape (m, c).
    """

    points: Array
    constant: Array
    weights: Array

    @classmethod
    def fit(cls, points: Array, residuals: Array, variances: list[Variances]) -> Self:
        """Returns the correction that `residuals` (m, c) ask for; NaN rows of a channel are left out of it."""
        alike = similarity(points, points)
        constant, weights = np.zeros(len(variances)), np.zeros(residuals.shape)
        for j, v in enumerate(variances):
            known = np.isfinite(residuals[:, j])
            if not known.any():
                continue
            kernel = v.level + v.shape * alike[np.ix_(known, known)] + v.noise * np.eye(int(known.sum()))
            alpha = np.linalg.solve(kernel, residuals[known, j])
            constant[j] = v.level * alpha.sum()
            weights[known, j] = v.shape * alpha
        return cls(points, constant, weights)

    def predict(self, points: Array) -> Array:
        """Returns what to add at `points`, float64, shape (n, c)."""
        return self.constant + similarity(points, self.points) @ self.weights

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
        columns["seed_order"] == "proximity",
        columns["partitioner"] == "blocks",
        columns["resources"] == "auto",
    ]
    return np.stack(values, axis=1).astype(np.float64)


def similarity(left: Array, right: Array) -> Array:
    """Returns the kernel exp(-d^2 / 2 length^2), float64, shape (len(left), len(right))."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / (2 * _LENGTH**2)))
