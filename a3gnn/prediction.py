"""`Prediction`: predicted metrics with their intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import METRICS

#: Half-width of a normal 90 % interval in standard deviations; `Surrogate` covers 90 % by default.
_DEVIATIONS = 1.645


_erfc = np.frompyfunc(math.erfc, 1, 1)

#: Lost accuracy counts linearly below a point, and logarithmically beyond.
_POINT = 0.01
#: Below this distance on that scale, the slope at the mean is used, because the quotient is rounding.
_SAME = 1e-6


def log_points(lost: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Returns lost accuracy, a share of 1, on the scale of its errors: asinh(points), float64, same shape.

    Most configurations lose almost nothing and a few lose tens of points, so the few would dominate errors in points.
    This scale is about linear within a point and logarithmic beyond, which makes errors comparable.
    """
    return np.asarray(np.arcsinh(np.asarray(lost) / _POINT))


def from_log_points(scaled: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Returns lost accuracy as a share of 1 from `log_points` of it, float64, same shape."""
    return np.asarray(_POINT * np.sinh(scaled))


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted metrics with their intervals.

    Attributes:
        mean: float64, shape (n_configs, n_metrics), columns in the order of `metrics`.
        low: Lower bounds, same shape.
        high: Upper bounds, same shape.
        metrics: Names of the columns: `METRICS`, except for rows that are not configurations.
        default_accuracy: Validation accuracy in [0, 1] from which losses count. Errors of accuracy are then on the
            scale `log_points` of the loss; None if they are in accuracy itself.
        budget_s: Seconds of training that each configuration gets, on the scale of `seconds_to_accuracy`. None if the
            default's seconds are unknown; that column then holds ratios to them.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    metrics: tuple[str, ...] = field(default=METRICS, kw_only=True)
    default_accuracy: float | None = field(default=None, kw_only=True)
    budget_s: float | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.mean)

    def column(self, metric: str, bound: str = "mean") -> NDArray[np.float64]:
        """Returns the column of `metric` in `bound` (mean, low or high), float64, shape (n_configs,)."""
        values: NDArray[np.float64] = getattr(self, bound)
        return values[:, self.metrics.index(metric)]

    def spread(self, metric: str, towards: float | None = None) -> NDArray[np.float64]:
        """Returns the standard deviation that the interval of `metric` implies, float64, shape (n_configs,).

        It is that of the metric's natural logarithm, or of accuracy itself, as if the interval covered 90 % of a normal
        distribution. It is 0 if nothing is uncertain, such as the memory of a missing device. If the errors of accuracy
        are on the scale `log_points`, it holds close to the mean. With `towards`, it gives the probability of reaching
        that accuracy, in [0, 1].
        """
        low, high = self.column(metric, "low"), self.column(metric, "high")
        width = np.zeros(len(low))
        if metric == "val_accuracy":
            width = self.lost(low) - self.lost(high)
            if self.default_accuracy is not None:
                width *= self._slope(towards)
        else:
            np.log(high, out=width, where=high > low)
            width[high > low] -= np.log(low[high > low])
        return width / (2 * _DEVIATIONS)

    def _slope(self, towards: float | None) -> NDArray[np.float64]:
        """Returns accuracy per unit of `lost` at each mean, or on the way from there to the accuracy `towards`."""
        mean = self.column("val_accuracy")
        at_mean: NDArray[np.float64] = _POINT * np.cosh(self.lost(mean))
        if towards is None:
            return at_mean
        way = self.lost(mean) - self.lost(towards)
        return np.divide(towards - mean, way, where=np.abs(way) > _SAME, out=at_mean)

    def one_sided(self, metric: str, bound: str) -> NDArray[np.float64]:
        """Returns the standard deviation towards `bound` (low or high), float64, shape (n_configs,).

        It is that of the metric's natural logarithm, or of accuracy in the units of `lost`.

        Intervals need not be symmetric: a known learning curve is certain up to its end, and uncertain beyond.
        """
        mean, end = self.column(metric), self.column(metric, bound)
        if metric == "val_accuracy":
            mean, end = self.lost(mean), self.lost(end)
        else:
            mean, end = np.log(np.maximum(mean, 1e-300)), np.log(np.maximum(end, 1e-300))
        return np.asarray(np.abs(end - mean) / _DEVIATIONS)

    def lost(self, accuracy: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Returns the loss at `accuracy`, on the scale of its errors, float64, same shape."""
        if self.default_accuracy is None:
            return -np.asarray(accuracy)
        return log_points(self.default_accuracy - accuracy)

    def no_worse(self, metric: str, limit: float) -> NDArray[np.float64]:
        """Returns the probability that `metric` is no worse than `limit`, float64, shape (n_configs,).

        Larger is worse, except for accuracy. Lost accuracy (`lost`) and the logarithms of other metrics are assumed to
        be normal on the worse side.
        """
        mean, deviation = self._scaled(metric)
        value = self.column(metric)
        if metric == "val_accuracy":
            bound, certain = float(self.lost(limit)), value >= limit
        else:
            bound, certain = math.log(limit), value <= limit
        uncertain = deviation > 0
        z = (bound - mean) / np.where(uncertain, deviation, 1.0)
        below = np.asarray(_erfc(-z / math.sqrt(2)), dtype=np.float64) / 2
        return np.where(uncertain, below, certain.astype(np.float64))

    def with_probability(self, metric: str, probability: float) -> NDArray[np.float64]:
        """Returns the bound that `metric` keeps with `probability`, as in `no_worse`, float64, shape (n_configs,)."""
        mean, deviation = self._scaled(metric)
        scaled = mean + NormalDist().inv_cdf(probability) * deviation
        if metric != "val_accuracy":
            return np.exp(scaled)
        return -scaled if self.default_accuracy is None else self.default_accuracy - from_log_points(scaled)

    def _scaled(self, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the mean, and the deviation on the worse side, on the scale of the errors of `metric`."""
        if metric == "val_accuracy":
            return self.lost(self.column(metric)), self.one_sided(metric, "low")
        logs = np.log(np.maximum(self.column(metric), 1e-9))  # a missing device has no bytes
        return logs, self.one_sided(metric, "high")

    def take(self, rows: NDArray[np.int64]) -> Prediction:
        """Returns the prediction for `rows` only."""
        return dataclasses.replace(self, mean=self.mean[rows], low=self.low[rows], high=self.high[rows])


#: Predicts encoded configurations, int64, shape (n_configs, n_knobs), as a `SearchSpace` encodes them.
Predict = Callable[[NDArray[np.int64]], Prediction]
