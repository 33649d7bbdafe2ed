"""The correction by a setting's own rows: a Gaussian process over the knobs on the learner's residuals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.posterior import Posterior, VarianceComponents, posteriors, rbf_kernel


class Correction(NamedTuple):
    """What a setting's rows say of configurations, each float64, shape (n_configs, n_outputs).

    Attributes:
        mean: What to add to the prediction.
        deviation: Standard deviation of a measurement around it, noise included.
    """

    mean: Array
    deviation: Array


@dataclass(frozen=True, slots=True)
class LocalCorrection:
    """A Gaussian process per output; its mean is `constant + rbf_kernel(points) @ weights`.

    With a single row it is that row's residual, shrunk by the noise, and falls to the setting's mean away from it;
    with more rows it follows the knobs. Near its rows it is certain, up to the noise, and far from them less so.

    Attributes:
        points: float64, shape (m, n_points): the setting's rows.
        constant: float64, shape (n_outputs,).
        weights: float64, shape (m, n_outputs).
        known: Which rows have which output, bool, shape (m, n_outputs).
        variances: One per output.
        posteriors: One per group of outputs that the same rows have.
    """

    points: Array
    constant: Array
    weights: Array
    known: NDArray[np.bool_]
    variances: tuple[VarianceComponents, ...]
    posteriors: tuple[Posterior, ...]

    @classmethod
    def fit(cls, points: Array, residuals: Array, variances: Sequence[VarianceComponents]) -> Self:
        """Returns the correction fitted to `residuals` (m, n_outputs); NaN entries are left out."""
        similarity, known = rbf_kernel(points, points), np.isfinite(residuals)
        constant, weights = np.zeros(len(variances)), np.zeros(residuals.shape)
        for j, v in enumerate(variances):
            rows = known[:, j]
            if not rows.any():
                continue
            covariance = v.between_settings + v.within_setting * similarity[np.ix_(rows, rows)]
            covariance += v.noise * np.eye(int(rows.sum()))
            alpha = np.linalg.solve(covariance, residuals[rows, j])
            constant[j] = v.between_settings * alpha.sum()
            weights[rows, j] = v.within_setting * alpha
        return cls(points, constant, weights, known, tuple(variances), posteriors(similarity, known, variances))

    def predict(self, points: Array) -> Correction:
        """Returns what the rows say at `points`, float64, shape (n, n_points)."""
        similarity = rbf_kernel(points, self.points)
        deviation = np.empty((len(points), len(self.variances)))
        deviation[:] = [one.deviation for one in self.variances]
        for posterior in self.posteriors:
            deviation[:, posterior.outputs] = posterior.deviation(similarity)
        return Correction(self.constant + similarity @ self.weights, deviation)

    def to_dict(self) -> dict[str, Any]:
        """Returns the arrays as JSON types."""
        arrays = {name: getattr(self, name).tolist() for name in ("points", "constant", "weights", "known")}
        return arrays | {"variances": [dataclasses.asdict(one) for one in self.variances]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the correction of `to_dict`."""
        points, constant, weights = (
            np.array(fields[name], dtype=np.float64) for name in ("points", "constant", "weights")
        )
        known = np.array(fields["known"], dtype=np.bool_)
        variances = tuple(VarianceComponents(**one) for one in fields["variances"])
        found = posteriors(rbf_kernel(points, points), known, variances)
        return cls(points, constant, weights, known, variances, found)
