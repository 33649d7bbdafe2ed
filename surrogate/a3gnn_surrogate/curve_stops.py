"""`CurveStops`: after how many mini-batches a learning curve stops improving, learned from others.

The logarithm of the mini-batches, over those of the soonest stop that is possible (`LearningCurve.soonest_stop`), is
normal, with a mean linear in the last gain, the scatter and the error that is left. Most known curves end before they
stop, so the likelihood counts those as censored. `python -m benchmarks.curve_ends --stops` judges it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from a3gnn.errors import UsageError
from a3gnn.learning_curve import LearningCurve
from a3gnn_surrogate.columns import Array
from a3gnn_surrogate.curve_ends import LEAST_POINTS, SMALLEST, Sample, scatter

#: Penalty of a squared standardized coefficient, over the curves that stop. With .01 and .1 the likelihood of graphs
#: held out differs by less than its standard error.
_PENALTY = 0.03
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
        coefficients: Of the features, and the mean where these are 0, float64, shape (n_features + 1,).
        deviation: Standard deviation of the logarithm.
        longest: Largest multiple of the soonest stop that was seen.
    """

    coefficients: Array
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
        features = np.array([_features(part.curve) for part in found])
        center, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
        columns = np.column_stack([(features - center) / scale, np.ones(len(found))])
        least = np.log([part.curve.soonest_stop() for part in found])
        most = np.log([part.trained for part in found])
        stopped, weights = (np.array([part[i] for part in found]) for i in (3, 4))
        penalty = _PENALTY * float(weights[stopped].sum())

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
        coefficients = np.append(own, values[-2] - float(own @ center))
        return cls(coefficients, float(np.exp(values[-1])), float(np.exp(most - least).max()))

    def predict(self, curve: LearningCurve) -> float:
        """Returns the mini-batches after which `curve`, which still improves, stops improving with probability .5.

        A curve with too few points is expected to stop as soon as it can.
        """
        if len(curve.batches) < LEAST_POINTS:
            return curve.soonest_stop()
        mean = float(np.append(_features(curve), 1.0) @ self.coefficients)
        later = ndtr(mean / self.deviation)  # the share of such curves that pass the soonest stop
        multiple = float(np.exp(mean - self.deviation * ndtri(later / 2)))
        return curve.soonest_stop() * min(max(multiple, 1.0), self.longest)


def _features(curve: LearningCurve) -> Array:
    """Returns the logarithms of the gain over the last half, the scatter and the error left, float64, shape (3,)."""
    best = max(curve.val_accuracy)
    half = curve.best_within(curve.trained / 2)
    gain = best - (curve.val_accuracy[0] if half is None else half)
    return np.log([gain + SMALLEST, scatter(curve) + SMALLEST, 1.01 - best])
