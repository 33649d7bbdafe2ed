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

#: So many rows a setting's own scatter has to outweigh before it counts more than that of all settings. Guess: on the
#: shipped rows 4 and 8 are about as good (docs/surrogate.md).
_PRIOR_ROWS = 6.0


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
    """A Student-t process per output; its mean is `constant + rbf_kernel(points) @ weights`.

    With a single row it is that row's residual, shrunk by the noise, and falls to the setting's mean away from it;
    with more rows it follows the knobs. Near its rows it is certain, up to the noise, and far from them less so. How
    much it varies is that of all settings at first and the setting's own the more rows there are: a Gaussian process
    whose variance is unknown (Shah, Wilson and Ghahramani, "Student-t Processes as Alternatives to Gaussian Processes",
    2014, Lemma 3), of which the mean and the standard deviation are taken.

    Attributes:
        points: float64, shape (m, n_points): the setting's rows.
        constant: float64, shape (n_outputs,).
        weights: float64, shape (m, n_outputs).
        scatter: What deviations are multiplied by: how the setting's rows vary beside all settings', float64, shape
            (n_outputs,).
        known: Which rows have which output, bool, shape (m, n_outputs).
        variances: One per output.
        posteriors: One per group of outputs that the same rows have.
    """

    points: Array
    constant: Array
    weights: Array
    scatter: Array
    known: NDArray[np.bool_]
    variances: tuple[VarianceComponents, ...]
    posteriors: tuple[Posterior, ...]

    @classmethod
    def fit(cls, points: Array, residuals: Array, variances: Sequence[VarianceComponents]) -> Self:
        """Returns the correction fitted to `residuals` (m, n_outputs); NaN entries are left out."""
        similarity, known = rbf_kernel(points, points), np.isfinite(residuals)
        constant, weights, scatter = np.zeros(len(variances)), np.zeros(residuals.shape), np.ones(len(variances))
        for j, v in enumerate(variances):
            rows = known[:, j]
            if not rows.any():
                continue
            within = v.within_setting * similarity[np.ix_(rows, rows)] + v.noise * np.eye(int(rows.sum()))
            alpha = np.linalg.solve(v.between_settings + within, residuals[rows, j])
            constant[j] = v.between_settings * alpha.sum()
            weights[rows, j] = v.within_setting * alpha
            scatter[j] = _scatter(residuals[rows, j], within)
        found = posteriors(similarity, known, variances)
        return cls(points, constant, weights, scatter, known, tuple(variances), found)

    def predict(self, points: Array) -> Correction:
        """Returns what the rows say at `points`, float64, shape (n, n_points)."""
        similarity = rbf_kernel(points, self.points)
        deviation = np.empty((len(points), len(self.variances)))
        deviation[:] = [one.deviation for one in self.variances]
        for posterior in self.posteriors:
            deviation[:, posterior.outputs] = posterior.deviation(similarity)
        return Correction(self.constant + similarity @ self.weights, deviation * self.scatter)

    def to_dict(self) -> dict[str, Any]:
        """Returns the arrays as JSON types."""
        arrays = {name: getattr(self, name).tolist() for name in ("points", "constant", "weights", "scatter", "known")}
        return arrays | {"variances": [dataclasses.asdict(one) for one in self.variances]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the correction of `to_dict`."""
        points, constant, weights, scatter = (
            np.array(fields[name], dtype=np.float64) for name in ("points", "constant", "weights", "scatter")
        )
        known = np.array(fields["known"], dtype=np.bool_)
        variances = tuple(VarianceComponents(**one) for one in fields["variances"])
        found = posteriors(rbf_kernel(points, points), known, variances)
        return cls(points, constant, weights, scatter, known, variances, found)


def _scatter(residuals: Array, within: Array) -> float:
    """Returns by how much `residuals` (m,), their level aside, scatter beside the covariance `within` (m, m).

    The square root of `(p + r) / (p + m - 1)`, where r is the residuals' squared Mahalanobis distance from their level,
    which is m - 1 where they vary as expected, and p is `_PRIOR_ROWS`; 1 of a single row.
    """
    solved = np.linalg.solve(within, np.stack([residuals, np.ones(len(residuals))], axis=1))
    distance = residuals @ solved[:, 0] - residuals @ solved[:, 1] * solved[:, 0].sum() / solved[:, 1].sum()
    return float(np.sqrt((_PRIOR_ROWS + max(distance, 0.0)) / (_PRIOR_ROWS + len(residuals) - 1)))
