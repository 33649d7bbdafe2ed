"""The correction by a setting's own rows, a Gaussian process over the knobs, and how wide its intervals are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.features import POINT_NAMES
from a3gnn_surrogate.rows import LEARNED, TrainingRows, relevant_inputs

#: Directions with a smaller share of the kernel's largest eigenvalue are dropped, because they vanish in the noise.
_LEAST_EIGENVALUE = 1e-6


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """How the residuals of one output vary; in squares of its unit."""

    between_settings: float  # variance of the settings' means
    within_setting: float  # variance over the knobs within a setting
    noise: float  # variance of repeated measurements

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
    """

    outputs: NDArray[np.int64]  # their positions, int64, shape (n,)
    rows: NDArray[np.int64]  # positions of the rows, int64, shape (m,)
    basis: Array  # K's eigenvectors, float64, shape (m, rank)
    explained: Array  # variance that each direction explains, per square, float64, shape (rank, n)
    mean_weights: Array  # weights of the rows in the estimate of the mean, float64, shape (m, n)
    mean_variance: Array  # variance of that estimate, float64, shape (n,)
    prior_variance: Array  # w + n, float64, shape (n,)
    noise: Array  # n, float64, shape (n,)

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


def rbf_kernel(left: Array, right: Array) -> Array:
    """Returns the kernel exp(-d^2 / 2) of points in length scales, float64, shape (len(left), len(right))."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / 2))


#: Rows that the scatter of all settings counts as, against a setting's own scatter. On the shipped rows 4 and 8 are
#: about as good (docs/design/surrogate.md).
PRIOR_ROWS = 6.0
#: The fields of a correction that are arrays: of numbers, then of truth values.
_ARRAYS = ("points", "constant", "weights", "scatter", "known", "relevant")


class Correction(NamedTuple):
    """The correction by a setting's rows, each float64, shape (n_configs, n_outputs)."""

    mean: Array  # value to add to the prediction
    deviation: Array  # standard deviation of a measurement around it, noise included


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
    """Outputs that depend on the same inputs."""

    outputs: NDArray[np.int64]  # their positions, int64, shape (n,)
    inputs: NDArray[np.bool_]  # bool, shape (n_points,)

    def kernel(self, left: Array, right: Array) -> Array:
        """Returns the kernel over these inputs, float64, shape (len(left), len(right))."""
        return rbf_kernel(left[:, self.inputs], right[:, self.inputs])

    def posteriors(
        self, similarity: Array, known: NDArray[np.bool_], variances: Sequence[VarianceComponents]
    ) -> tuple[Posterior, ...]:
        """Returns the posteriors on rows whose kernel is `similarity`, (m, m), one per pattern of known outputs."""
        patterns: dict[bytes, list[int]] = {}
        for j in self.outputs[known[:, self.outputs].any(axis=0)]:
            patterns.setdefault(known[:, j].tobytes(), []).append(int(j))
        return tuple(
            Posterior.of(similarity, np.flatnonzero(known[:, outputs[0]]), np.array(outputs), variances)
            for outputs in patterns.values()
        )


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


#: The Gaussian process's input that is 0 on the whole graph.
_PARTS = POINT_NAMES.index("parts")
#: Rows of a kind of configuration from which its errors are scaled separately. Guess.
_MIN_KIND_ROWS = 10


class KindFactors(NamedTuple):
    """Factors on the deviations of two kinds of configurations: on the whole graph, and on parts.

    Their errors of accuracy differ: parts lose up to 40 points, nothing else over three (351 rows of six graphs).
    """

    whole: float = 1.0
    parts: float = 1.0

    @classmethod
    def of(cls, scores: Array, points: Array) -> KindFactors:
        """Returns the root mean square score of each kind over that of all rows; 1 if either kind has few rows.

        Args:
            scores: float64, shape (n,); NaN for rows without a score.
            points: float64, shape (n, n_points).
        """
        known = np.isfinite(scores)
        parts = points[:, _PARTS] > 0
        kinds = [scores[known & ~parts], scores[known & parts]]
        if min(len(kind) for kind in kinds) < _MIN_KIND_ROWS:
            return cls()
        every = np.sqrt(np.mean(scores[known] ** 2))
        return cls(*(float(np.sqrt(np.mean(kind**2)) / max(every, 1e-12)) for kind in kinds))

    def at(self, points: Array) -> Array:
        """Returns the factors at `points`, float64, shape (n,)."""
        return np.where(points[:, _PARTS] > 0, self.parts, self.whole)


def scores_given_default(errors: Array, rows: TrainingRows, variances: VarianceComponents, output: int) -> Array:
    """Returns the errors of `output` that remain once each setting's default is measured, float64, shape (n,).

    Only the default's first row counts as measured, and gets NaN. So do rows that share its learning curve, if that
    gives the output. If the default was not measured, the setting's first row takes its place.
    """
    remaining = np.full(len(errors), np.nan)
    for own, default in _settings(rows, output):
        first = default[:1]
        local = LocalCorrection.fit(
            rows.points[first], errors[first, None], [variances], relevant_inputs(rows.points)[[output]]
        )
        others = np.setdiff1d(own, default if output in LEARNED else first)
        correction = local.predict(rows.points[others])
        remaining[others] = (errors[others] - correction.mean[:, 0]) / correction.deviation[:, 0]
    return remaining


def scores_beside_default(errors: Array, rows: TrainingRows, variances: VarianceComponents, output: int) -> Array:
    """Returns the difference of each error from that of its setting's default configuration, float64, shape (n,).

    Errors that all configurations of a setting share cancel. The default's error is the median over its rows, because a
    disturbed trial of it would affect the errors of all others. The default's rows have NaN. If there are none, another
    row takes their place as in `scores_given_default`.
    """
    beside = np.full(len(errors), np.nan)
    for own, default in _settings(rows, output):
        others = np.setdiff1d(own, default)
        local = LocalCorrection.fit(
            rows.points[default[:1]], np.zeros((1, 1)), [variances], relevant_inputs(rows.points)[[output]]
        )
        deviation = local.predict(rows.points[others]).deviation[:, 0]
        beside[others] = (errors[others] - np.median(errors[default])) / deviation
    return beside


def _settings(rows: TrainingRows, output: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields the positions of each setting's rows, and of its rows that repeat its default or else its first row.

    Rows repeat each other if they are equal in the inputs that `output` depends on.
    """
    points = rows.points[:, relevant_inputs(rows.points)[output]]
    for setting in np.unique(rows.settings):
        own = np.flatnonzero(rows.settings == setting)
        first = own[int(rows.reference[own].argmax())]
        yield own, own[(points[own] == points[first]).all(axis=1)]


def half_width(errors: Array, graphs: NDArray[np.str_], coverage: float) -> float:
    """Returns the half-width that covers a share `coverage` of `errors`, with equal weight for each graph.

    The level is raised to coverage (1 + 1 / n), split conformal's correction for n exchangeable scores, and capped at
    the largest error. Rows of one graph resemble each other, so n is the number of graphs (Dunn, Wasserman and Ramdas,
    2022), or the number of rows if there is one graph. NaN errors are left out; the result is inf if none are left.
    """
    known = np.isfinite(errors)
    scores, names = np.abs(errors[known]), graphs[known]
    if not len(scores):
        return float("inf")
    _, group, counts = np.unique(names, return_inverse=True, return_counts=True)
    share = 1 / counts[group] / len(counts)
    order = scores.argsort()
    exchangeable = len(counts) if len(counts) > 1 else len(scores)
    level = min(coverage * (1 + 1 / exchangeable), 1.0)
    reached = np.cumsum(share[order]) >= level - 1e-9
    return float(scores[order][reached.argmax() if reached.any() else -1])
