"""`CurveEnds`: what a learning curve will have reached after more mini-batches, with an interval, learned from others.

The logarithm of the gain is linear in the logarithms of the last gains, the scatter, the multiple of the mini-batches
and other features of the known part, by ridge regression over parts of known curves. The interval has the quantiles of
the errors on graphs that a fit has not seen, at gains predicted alike. `python -m benchmarks.curve_ends` judges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from a3gnn.errors import UsageError
from a3gnn.learning_curve import LearningCurve
from a3gnn_surrogate.columns import MAX_FOLDS, Array
from a3gnn_surrogate.known_curves import expected_accuracy

#: A curve needs so many points to be extrapolated: fewer show no change of its slope. Guess.
LEAST_POINTS = 3
#: Multiples of the mini-batches that the fit learns from. Few known curves are longer.
_MULTIPLES = (1.5, 2.0, 3.0, 4.0, 6.0)
#: Added to gains before their logarithm: validation's scatter hides smaller ones. Guess.
SMALLEST = 0.003
#: Penalty of a standardized coefficient, over the number of rows. With .01 and 1 errors differ by less than .1 points.
_PENALTY = 0.1
#: Errors are sorted by predicted gain into so many bins. Guess.
_BINS = 8
#: Scatter is the mean step between so many last points. Guess.
_SCATTER_POINTS = 6
#: Bounds of a 90 % interval, and the median.
_QUANTILES = (0.05, 0.5, 0.95)


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


class Extrapolated(NamedTuple):
    """A prediction: median, and bounds of a 90 % interval."""

    median: float
    low: float
    high: float


class _Cuts(NamedTuple):
    """Parts of curves, and what they gained later.

    Attributes:
        features: As `_features` returns them, float64, shape (n, n_features).
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
                features.append(_features(part, sample.curve.batches[later], sample.default))
                gains.append(best[later] - best[known])
                graphs.append(sample.graph)
                weights.append(1 / len(pairs) / of_graph[sample.graph] ** 0.5)
        return cls(np.array(features), _log(np.array(gains)), np.array(graphs), np.array(weights))

    def take(self, rows: NDArray[np.bool_]) -> _Cuts:
        """Returns only `rows`."""
        return _Cuts(self.features[rows], self.gains[rows], self.graphs[rows], self.weights[rows])


@dataclass(frozen=True, slots=True)
class CurveEnds:
    """A fit to known curves.

    Attributes:
        coefficients: Of the features, n_features.
        intercept: The logarithm of the gain where all features are 0.
        centers: Predicted logarithms of gains, ascending, n_bins.
        errors: `_QUANTILES` of the errors there, on graphs held out: a row of n_bins for each.
    """

    coefficients: tuple[float, ...]
    intercept: float
    centers: tuple[float, ...]
    errors: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Self:
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
        return cls(
            tuple(coefficients.tolist()),
            intercept,
            centers=tuple(float(np.average(predicted[one], weights=cuts.weights[one])) for one in found),
            errors=tuple(zip(*(_quantiles(errors[one], cuts.weights[one]) for one in found), strict=True)),
        )

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the fit of the fields from `dataclasses.asdict`."""
        errors = tuple(tuple(quantile) for quantile in fields["errors"])
        return cls(tuple(fields["coefficients"]), fields["intercept"], tuple(fields["centers"]), errors)

    def predict(self, curve: LearningCurve, batches: float, default: LearningCurve | None = None) -> Extrapolated:
        """Returns the best quality that `curve` will have had after `batches` mini-batches.

        Args:
            curve: The known part of a curve.
            batches: More mini-batches than it has.
            default: The default configuration's curve in the same setting, unless `curve` is its own; it makes the
                prediction better.

        Raises:
            UsageError: The curve has too few points, or `batches` too.
        """
        if len(curve.batches) < LEAST_POINTS:
            raise UsageError(f"extrapolation needs a curve of at least {LEAST_POINTS} points, got {len(curve.batches)}")
        if batches <= curve.trained:
            raise UsageError(f"extrapolation must go beyond the curve's {curve.trained} mini-batches, got {batches}")
        gain = float(_features(curve, batches, default) @ self.coefficients + self.intercept)
        best = max(curve.val_accuracy)
        low, median, high = (
            min(max(float(np.exp(gain + np.interp(gain, self.centers, error)) - SMALLEST), 0.0), 1.0 - best)
            for error in self.errors
        )
        return Extrapolated(best + median, best + low, best + high)


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


def _features(curve: LearningCurve, batches: float, default: LearningCurve | None) -> Array:
    """Returns what the gain of `curve` up to `batches` depends on, float64, shape (n_features,)."""
    counts, quality = np.array(curve.batches, np.float64), np.array(curve.val_accuracy)
    trained, best, earlier = curve.trained, float(quality.max()), curve.best_within(curve.trained / 4)
    half = curve.best_within(curve.trained / 2)
    half = quality[0] if half is None else half
    late = quality[counts > trained / 2]
    expected = 0.0 if default is None else expected_accuracy(curve, default, batches) - best
    known = [best - half, 0.0 if earlier is None else half - earlier, best - late.mean(), best - quality[-1]]
    return np.array(
        [
            *_log(np.array([*known, scatter(curve)])),
            earlier is None,
            np.log2(batches / trained),
            np.log2(trained / counts[quality.argmax()]),
            np.log(1.01 - best),
            np.log(len(counts)),
            np.log(trained),
            0.0 if default is None else _log(np.array(expected)),
            default is not None,
        ],
        dtype=np.float64,
    )


def scatter(curve: LearningCurve) -> float:
    """Returns the mean step between the last points of `curve`."""
    return float(np.abs(np.diff(curve.val_accuracy[-_SCATTER_POINTS:])).mean())


def _log(gains: Array) -> Array:
    return np.asarray(np.log(np.maximum(gains, 0.0) + SMALLEST))


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


#: Penalty of a squared standardized coefficient, over the curves that stop. With .01 and .1 the likelihood of graphs
#: held out differs by less than its standard error.
_STOP_PENALTY = 0.03
#: A point is as much later than the one before, in logarithms: a stop is only seen at points.
_STEP = float(np.log(17 / 16))


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


@dataclass(frozen=True, slots=True)
class CurveStops:
    """A fit to known curves.

    Attributes:
        coefficients: Of the features, and the mean where these are 0, n_features + 1.
        deviation: Standard deviation of the logarithm.
        longest: Largest multiple of the soonest stop that was seen.
    """

    coefficients: tuple[float, ...]
    deviation: float
    longest: float

    @classmethod
    def of(cls, known: Iterable[Part]) -> Self:
        """Returns the fit to the parts of curves.

        Raises:
            UsageError: No curve has stopped.
        """
        from scipy.optimize import minimize  # only fits need it, and it takes a second to import

        found = list(known)
        if not any(part.stopped for part in found):
            raise UsageError("when curves stop is learned from curves that did, got none")
        features = np.array([_stop_features(part.curve) for part in found])
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
        return cls(coefficients, float(np.exp(values[-1])), float(np.exp(most - least).max()))

    def predict(self, curve: LearningCurve) -> float:
        """Returns the mini-batches after which `curve`, which still improves, stops improving with probability .5.

        A curve with too few points is expected to stop as soon as it can.
        """
        if len(curve.batches) < LEAST_POINTS:
            return curve.soonest_stop()
        mean = float(np.append(_stop_features(curve), 1.0) @ self.coefficients)
        later = ndtr(mean / self.deviation)  # the share of such curves that pass the soonest stop
        multiple = float(np.exp(mean - self.deviation * ndtri(later / 2)))
        return curve.soonest_stop() * min(max(multiple, 1.0), self.longest)


def _stop_features(curve: LearningCurve) -> Array:
    """Returns the logarithms of the gain over the last half, the scatter and the error left, float64, shape (3,)."""
    best = max(curve.val_accuracy)
    half = curve.best_within(curve.trained / 2)
    gain = best - (curve.val_accuracy[0] if half is None else half)
    return np.log([gain + SMALLEST, scatter(curve) + SMALLEST, 1.01 - best])
