"""Fits to learning curves of other graphs: the `curves.json` of the shipped profiles, by `benchmarks.corpus`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_ndtr

from a3gnn.errors import UsageError
from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Measurement
from a3gnn_surrogate.columns import MAX_FOLDS, Array
from a3gnn_surrogate.curve_ends import (
    LEAST_POINTS,
    CurveEnds,
    CurveStops,
    gain_features,
    log_gains,
    stop_features,
)
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.rows import by_setting

#: Multiples of the mini-batches that the fit learns from. Few known curves are longer.
_MULTIPLES = (1.5, 2.0, 3.0, 4.0, 6.0)
#: Penalty of a standardized coefficient, over the number of rows. With .01 and 1 errors differ by less than .1 points.
_PENALTY = 0.1
#: Errors are sorted by predicted gain into so many bins. Guess.
_BINS = 8
#: Bounds of a 90 % interval, and the median.
_QUANTILES = (0.05, 0.5, 0.95)
#: Penalty of a squared standardized coefficient, over the curves that stop. With .01 and .1 the likelihood of graphs
#: held out differs by less than its standard error.
_STOP_PENALTY = 0.03
#: A point is as much later than the one before, in logarithms: a stop is only seen at points.
_STEP = float(np.log(17 / 16))


class Sample(NamedTuple):
    """A known curve to learn from.

    Attributes:
        graph: The graph's fingerprint.
        curve: The curve.
        default: The default configuration's curve in the same setting; None if unknown, or if `curve` is its own.
    """

    graph: str
    curve: LearningCurve
    default: LearningCurve | None = None


def samples(measurements: Iterable[Measurement]) -> list[Sample]:
    """Returns the curves of `measurements`, the longest of each learning key of a setting."""
    found = []
    for rows in by_setting(measurements).values():
        curves = KnownCurves.of(rows)
        own = None if curves.default is None else curves.default.knobs
        for known in curves.curves:
            default = curves.default.curve if curves.default and known.knobs != own else None
            found.append(Sample(rows[0].setting.graph.fingerprint, known.curve, default))
    return found


def curve_fits(measurements: Iterable[Measurement]) -> dict[str, Any]:
    """Returns the fits to the curves of `measurements` as JSON types: the content of `curves.json`.

    Raises:
        UsageError: Too few curves stopped improving, or fewer than two graphs have one.
    """
    curves = samples(measurements)
    stops = fitted_stops(parts(curves))
    return {"ends": dataclasses.asdict(fitted_ends(curves)), "stops": dataclasses.asdict(stops)}


class _Cuts(NamedTuple):
    """Parts of curves, and what they gained later.

    Attributes:
        features: As `gain_features` returns them, float64, shape (n, n_features).
        gains: Logarithms of the gains, float64, shape (n,).
        graphs: Fingerprints, str, shape (n,).
        weights: Equal for the curves of a graph; a graph's is the square root of its curves; float64, shape (n,).
    """

    features: Array
    gains: Array
    graphs: NDArray[np.str_]
    weights: Array

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Self:
        """Returns the parts of `samples` that later points of the same curve continue."""
        features, gains, graphs, weights = [], [], [], []
        curves = [sample for sample in samples if len(sample.curve.batches) > LEAST_POINTS]
        of_graph = {sample.graph: 0 for sample in curves}
        for sample in curves:
            of_graph[sample.graph] += 1
        for sample in curves:
            best, pairs = sample.curve.running_best(), list(_pairs(sample.curve))
            for known, later in pairs:
                part = sample.curve.first(known + 1)
                features.append(gain_features(part, sample.curve.batches[later], sample.default))
                gains.append(best[later] - best[known])
                graphs.append(sample.graph)
                weights.append(1 / len(pairs) / of_graph[sample.graph] ** 0.5)
        return cls(np.array(features), log_gains(np.array(gains)), np.array(graphs), np.array(weights))

    def take(self, rows: NDArray[np.bool_]) -> _Cuts:
        """Returns only `rows`."""
        return _Cuts(self.features[rows], self.gains[rows], self.graphs[rows], self.weights[rows])


def fitted_ends(samples: Iterable[Sample]) -> CurveEnds:
    """Returns the fit to `samples`.

    Raises:
        UsageError: Fewer than two graphs have a curve with enough points.
    """
    cuts = _Cuts.of(list(samples))
    graphs = np.unique(cuts.graphs)
    if len(graphs) < 2:
        raise UsageError(f"extrapolation needs curves of at least 2 graphs to learn from, got {len(graphs)}")
    predicted = np.empty(len(cuts.gains))
    for held in np.array_split(graphs, min(MAX_FOLDS, len(graphs))):
        rows = np.isin(cuts.graphs, held)
        coefficients, intercept = _ridge(cuts.take(~rows))
        predicted[rows] = cuts.features[rows] @ coefficients + intercept
    errors = cuts.gains - predicted
    order = predicted.argsort()
    shares = np.cumsum(cuts.weights[order]) / cuts.weights.sum()
    bins = np.split(order, np.searchsorted(shares, np.arange(1, _BINS) / _BINS))
    found = [one for one in bins if len(one)]
    coefficients, intercept = _ridge(cuts)
    return CurveEnds(
        tuple(coefficients.tolist()),
        intercept,
        centers=tuple(float(np.average(predicted[one], weights=cuts.weights[one])) for one in found),
        errors=tuple(zip(*(_quantiles(errors[one], cuts.weights[one]) for one in found), strict=True)),
    )


def _pairs(curve: LearningCurve) -> Iterable[tuple[int, int]]:
    """Yields positions of a point, and of the later point at each of `_MULTIPLES`."""
    batches = np.array(curve.batches, np.float64)
    for known in range(LEAST_POINTS - 1, len(batches) - 1):
        targets = batches[known] * np.array(_MULTIPLES)
        places = np.searchsorted(batches, targets * (1 + 1e-9), side="right") - 1
        last = known
        for place, target in zip(places.tolist(), targets, strict=True):
            if place > last and target <= batches[-1] * (1 + 1e-9):
                yield known, place
                last = place


def _ridge(cuts: _Cuts) -> tuple[Array, float]:
    """Returns coefficients and intercept of the weighted ridge regression of the gains."""
    shares = cuts.weights / cuts.weights.sum()
    center = shares @ cuts.features
    scale = np.sqrt(shares @ (cuts.features - center) ** 2)
    scale[scale == 0] = 1.0
    columns, mean = (cuts.features - center) / scale, float(shares @ cuts.gains)
    covariance = columns.T @ (columns * shares[:, None]) + _PENALTY * np.eye(columns.shape[1])
    coefficients = np.linalg.solve(covariance, columns.T @ (shares * (cuts.gains - mean))) / scale
    return coefficients, mean - float(center @ coefficients)


def _quantiles(values: Array, weights: Array) -> list[float]:
    order = values.argsort()
    shares = np.cumsum(weights[order]) / weights.sum()
    places = [min(int(np.searchsorted(shares, share)), len(order) - 1) for share in _QUANTILES]
    return [float(values[order[place]]) for place in places]


class Part(NamedTuple):
    """The first points of a known curve, and what came of it.

    Attributes:
        graph: The graph's fingerprint.
        curve: The first points.
        trained: Mini-batches at which the curve stopped improving, or else those that it was trained for.
        stopped: Whether it stopped.
        weight: Equal for all curves; a curve's parts share it.
    """

    graph: str
    curve: LearningCurve
    trained: int
    stopped: bool
    weight: float


def parts(curves: Iterable[Sample]) -> list[Part]:
    """Returns the parts of `curves` that had not stopped improving, and that were trained on past the soonest stop."""
    found = []
    for sample in curves:
        curve = sample.curve
        whole = [curve.first(points) for points in range(LEAST_POINTS, len(curve.batches) + 1)]
        stop = next((one for one in whole if one.has_stopped_improving()), None)
        trained = curve.trained if stop is None else stop.trained
        own = [one for one in whole if one.trained < trained and one.soonest_stop() <= trained]
        found += [Part(sample.graph, one, trained, stop is not None, 1 / len(own)) for one in own]
    return found


def fitted_stops(known: Iterable[Part]) -> CurveStops:
    """Returns the fit to the parts of curves.

    Raises:
        UsageError: No curve has stopped.
    """
    found = list(known)
    if not any(part.stopped for part in found):
        raise UsageError("when curves stop is learned from curves that did, got none")
    features = np.array([stop_features(part.curve) for part in found])
    center, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    columns = np.column_stack([(features - center) / scale, np.ones(len(found))])
    least = np.log([part.curve.soonest_stop() for part in found])
    most = np.log([part.trained for part in found])
    stopped, weights = (np.array([part[i] for part in found]) for i in (3, 4))
    penalty = _STOP_PENALTY * float(weights[stopped].sum())

    def loss(values: Array) -> float:
        mean, deviation = columns @ values[:-1], np.exp(values[-1])
        z = (most - least - mean) / deviation
        after = log_ndtr((_STEP + mean) / deviation)
        density = -np.square(z) / 2 - np.log(2 * np.pi) / 2
        seen = np.where(stopped, density - values[-1] + np.log(_STEP), log_ndtr(-z))
        return float(-weights @ (seen - after) + penalty * np.square(values[:-2]).sum())

    start = np.append(np.zeros(columns.shape[1]), 0.0)
    bounds = [(-5.0, 5.0)] * columns.shape[1] + [(-2.0, 2.0)]
    values = minimize(loss, start, method="L-BFGS-B", bounds=bounds).x
    own = values[:-2] / scale
    coefficients = (*own.tolist(), float(values[-2] - own @ center))
    return CurveStops(coefficients, float(np.exp(values[-1])), float(np.exp(most - least).max()))
