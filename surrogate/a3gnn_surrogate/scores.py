"""Scores: errors on held-out rows in standard deviations; their quantiles are the scales of intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.local import LocalCorrection
from a3gnn_surrogate.points import POINT_NAMES
from a3gnn_surrogate.posterior import VarianceComponents
from a3gnn_surrogate.training_rows import LEARNED, RELEVANT, TrainingRows

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
        local = LocalCorrection.fit(rows.points[first], errors[first, None], [variances], RELEVANT[[output]])
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
        local = LocalCorrection.fit(rows.points[default[:1]], np.zeros((1, 1)), [variances], RELEVANT[[output]])
        deviation = local.predict(rows.points[others]).deviation[:, 0]
        beside[others] = (errors[others] - np.median(errors[default])) / deviation
    return beside


def _settings(rows: TrainingRows, output: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields the positions of each setting's rows, and of its rows that repeat its default or else its first row.

    Rows repeat each other if they are equal in the inputs that `output` depends on.
    """
    points = rows.points[:, RELEVANT[output]]
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
