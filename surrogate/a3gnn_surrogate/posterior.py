"""The uncertainty of a Gaussian process over the knobs, given a setting's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn_surrogate.columns import Array

#: Directions with a smaller share of the kernel's largest eigenvalue are dropped, because they vanish in the noise.
_LEAST_EIGENVALUE = 1e-6


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

    @property
    def deviation(self) -> float:
        """Standard deviation of a measurement in a setting without other measurements."""
        return float(np.sqrt(self.between_settings + self.within_setting + self.noise))

    @property
    def deviation_given_one(self) -> float:
        """Standard deviation of a measurement if one row is measured that has nothing in common with it."""
        own = self.within_setting + self.noise
        return float(np.sqrt(own + own * self.between_settings / max(own + self.between_settings, 1e-12)))


@dataclass(frozen=True, slots=True)
class Posterior:
    """The remaining variance of outputs that were all measured on the same rows.

    The covariance of rows is b + w K + n I, with b, w and n the variance components and K the kernel. Its inverse is
    that of w K + n I, by K's eigenvectors, which the outputs share, and a term for the unknown mean (Rasmussen and
    Williams, "Gaussian Processes for Machine Learning", Eq. 2.42).

    Attributes:
        outputs: Their positions, int64, shape (n,).
        rows: Positions of the rows, int64, shape (m,).
        basis: K's eigenvectors, float64, shape (m, rank).
        explained: Variance that each direction explains, per square, float64, shape (rank, n).
        mean_weights: Weights of the rows in the estimate of the mean, float64, shape (m, n).
        mean_variance: Variance of that estimate, float64, shape (n,).
        prior_variance: w + n, float64, shape (n,).
        noise: n, float64, shape (n,).
    """

    outputs: NDArray[np.int64]
    rows: NDArray[np.int64]
    basis: Array
    explained: Array
    mean_weights: Array
    mean_variance: Array
    prior_variance: Array
    noise: Array

    @classmethod
    def of(
        cls,
        similarity: Array,
        rows: NDArray[np.int64],
        outputs: NDArray[np.int64],
        variances: Sequence[VarianceComponents],
    ) -> Self:
        """Returns the posterior of `outputs` on `rows`, whose kernel is in `similarity` of all rows, (m, m)."""
        between, within, noise = (
            np.array([getattr(variances[j], name) for j in outputs]) for name in VarianceComponents.__slots__
        )
        eigenvalues, vectors = np.linalg.eigh(similarity[np.ix_(rows, rows)])
        solved = vectors.T.sum(axis=1)[:, None] / (np.maximum(eigenvalues, 0.0)[:, None] * within + noise)
        ones = vectors @ solved
        large = eigenvalues > _LEAST_EIGENVALUE * eigenvalues[-1]
        return cls(
            outputs=outputs,
            rows=rows,
            basis=np.ascontiguousarray(vectors[:, large]),
            explained=within**2 / (eigenvalues[large, None] * within + noise),
            mean_weights=within * ones,
            mean_variance=1 / (1 / np.maximum(between, 1e-12) + ones.sum(axis=0)),
            prior_variance=within + noise,
            noise=noise,
        )

    def deviation(self, similarity: Array) -> Array:
        """Returns the standard deviation of a measurement, noise included, float64, shape (n_configs, n).

        Args:
            similarity: The kernel between configurations and all of the setting's rows, shape (n_configs, m).
        """
        own = similarity if len(self.rows) == similarity.shape[1] else similarity[:, self.rows]
        variance = self.prior_variance - (own @ self.basis) ** 2 @ self.explained
        variance += (1 - own @ self.mean_weights) ** 2 * self.mean_variance
        return np.asarray(np.sqrt(np.maximum(variance, self.noise)))  # rounding


def posteriors(
    similarity: Array, known: NDArray[np.bool_], variances: Sequence[VarianceComponents]
) -> tuple[Posterior, ...]:
    """Returns the posteriors of all outputs with rows, one per pattern in `known`, bool, shape (m, n_outputs)."""
    patterns: dict[bytes, list[int]] = {}
    for j in np.flatnonzero(known.any(axis=0)):
        patterns.setdefault(known[:, j].tobytes(), []).append(int(j))
    return tuple(
        Posterior.of(similarity, np.flatnonzero(known[:, group[0]]), np.array(group), variances)
        for group in patterns.values()
    )


def rbf_kernel(left: Array, right: Array) -> Array:
    """Returns the kernel exp(-d^2 / 2) of points in length scales, float64, shape (len(left), len(right))."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / 2))
