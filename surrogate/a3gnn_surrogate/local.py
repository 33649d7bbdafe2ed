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

#: Rows that the scatter of all settings counts as, against a setting's own scatter. Guess: on the shipped rows 4 and 8
#: are about as good (docs/design/surrogate.md).
PRIOR_ROWS = 6.0
#: The fields of a correction that are arrays: of numbers, then of truth values.
_ARRAYS = ("points", "constant", "weights", "scatter", "known", "relevant")


class Correction(NamedTuple):
    """The correction by a setting's rows, each float64, shape (n_configs, n_outputs).

    Attributes:
        mean: Value to add to the prediction.
        deviation: Standard deviation of a measurement around it, noise included.
    """

    mean: Array
    deviation: Array


@dataclass(frozen=True, slots=True)
class LocalCorrection:
    """A Student-t process per output; its mean is `constant + rbf_kernel(points) @ weights`.

    With a single row it is that row's residual, shrunk by the noise, and falls to the setting's mean away from it; with
    more rows it follows the knobs. Near its rows it is certain up to the noise, and far from them less so. Its variance
    is that of all settings at first, and moves to the setting's own with more rows. It is a Gaussian process with
    unknown variance (Shah, Wilson and Ghahramani, "Student-t Processes as Alternatives to Gaussian Processes", 2014,
    Lemma 3), of which the mean and the standard deviation are used.

    Attributes:
        points: float64, shape (m, n_points): the setting's rows.
        constant: float64, shape (n_outputs,).
        weights: float64, shape (m, n_outputs).
        scatter: Factor on deviations: the scatter of the setting's rows relative to that of all settings, float64,
            shape (n_outputs,).
        known: Which rows have which output, bool, shape (m, n_outputs).
        variances: One per output.
        relevant: Which inputs each output depends on, bool, shape (n_outputs, n_points).
        posteriors: One per group of outputs that depend on the same inputs and are known in the same rows; grouped by
            inputs, in the order of `_groups`.
    """

    points: Array
    constant: Array
    weights: Array
    scatter: Array
    known: NDArray[np.bool_]
    variances: tuple[VarianceComponents, ...]
    relevant: NDArray[np.bool_]
    posteriors: tuple[tuple[Posterior, ...], ...]

    @classmethod
    def fit(
        cls,
        points: Array,
        residuals: Array,
        variances: Sequence[VarianceComponents],
        relevant: NDArray[np.bool_] | None = None,
    ) -> Self:
        """Returns the correction fitted to `residuals` (m, n_outputs); NaN entries are left out.

        Args:
            points: float64, shape (m, n_points).
            residuals: float64, shape (m, n_outputs).
            variances: One per output.
            relevant: Which inputs each output depends on, bool, shape (n_outputs, n_points); all by default.
        """
        known = np.isfinite(residuals)
        if relevant is None:
            relevant = np.ones((len(variances), points.shape[1]), dtype=np.bool_)
        constant, weights, scatter = np.zeros(len(variances)), np.zeros(residuals.shape), np.ones(len(variances))
        found = []
        for group in _groups(relevant):
            similarity = group.kernel(points, points)
            found.append(group.posteriors(similarity, known, variances))
            for j in group.outputs:
                rows, v = known[:, j], variances[j]
                if not rows.any():
                    continue
                within = v.within_setting * similarity[np.ix_(rows, rows)] + v.noise * np.eye(int(rows.sum()))
                alpha = np.linalg.solve(v.between_settings + within, residuals[rows, j])
                constant[j] = v.between_settings * alpha.sum()
                weights[rows, j] = v.within_setting * alpha
                scatter[j] = _scatter(residuals[rows, j], within)
        return cls(points, constant, weights, scatter, known, tuple(variances), relevant, tuple(found))

    def predict(self, points: Array) -> Correction:
        """Returns the correction at `points`, float64, shape (n, n_points)."""
        mean = np.tile(self.constant, (len(points), 1))
        deviation = np.empty(mean.shape)
        deviation[:] = [one.deviation for one in self.variances]
        for group, own in zip(_groups(self.relevant), self.posteriors, strict=True):
            similarity = group.kernel(points, self.points)
            mean[:, group.outputs] += similarity @ self.weights[:, group.outputs]
            for posterior in own:
                deviation[:, posterior.outputs] = posterior.deviation(similarity)
        return Correction(mean, deviation * self.scatter)

    def to_dict(self) -> dict[str, Any]:
        """Returns the arrays as JSON types."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return arrays | {"variances": [dataclasses.asdict(one) for one in self.variances]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the correction of `to_dict`."""
        points, constant, weights, scatter = (np.array(fields[name], dtype=np.float64) for name in _ARRAYS[:4])
        known, relevant = (np.array(fields[name], dtype=np.bool_) for name in _ARRAYS[4:])
        variances = tuple(VarianceComponents(**one) for one in fields["variances"])
        groups = _groups(relevant)
        found = tuple(group.posteriors(group.kernel(points, points), known, variances) for group in groups)
        return cls(points, constant, weights, scatter, known, variances, relevant, found)


class _Group(NamedTuple):
    """Outputs that depend on the same inputs.

    Attributes:
        outputs: Their positions, int64, shape (n,).
        inputs: bool, shape (n_points,).
    """

    outputs: NDArray[np.int64]
    inputs: NDArray[np.bool_]

    def kernel(self, left: Array, right: Array) -> Array:
        """Returns the kernel over these inputs, float64, shape (len(left), len(right))."""
        return rbf_kernel(left[:, self.inputs], right[:, self.inputs])

    def posteriors(
        self, similarity: Array, known: NDArray[np.bool_], variances: Sequence[VarianceComponents]
    ) -> tuple[Posterior, ...]:
        """Returns the posteriors of these outputs on rows whose kernel is `similarity`, (m, m)."""
        own = np.zeros_like(known)
        own[:, self.outputs] = known[:, self.outputs]
        return posteriors(similarity, own, variances)


def _groups(relevant: NDArray[np.bool_]) -> list[_Group]:
    kinds, group = np.unique(relevant, axis=0, return_inverse=True)
    return [_Group(np.flatnonzero(group == number), inputs) for number, inputs in enumerate(kinds)]


def _scatter(residuals: Array, within: Array) -> float:
    """Returns the scatter of `residuals` (m,) around their level, relative to the covariance `within` (m, m).

    It is the square root of `(p + r) / (p + m - 1)`, where p is `PRIOR_ROWS` and r is the squared Mahalanobis distance
    of the residuals from their level. If they vary as expected, r is m - 1. For a single row the result is 1.
    """
    solved = np.linalg.solve(within, np.stack([residuals, np.ones(len(residuals))], axis=1))
    distance = residuals @ solved[:, 0] - residuals @ solved[:, 1] * solved[:, 0].sum() / solved[:, 1].sum()
    return float(np.sqrt((PRIOR_ROWS + max(distance, 0.0)) / (PRIOR_ROWS + len(residuals) - 1)))
