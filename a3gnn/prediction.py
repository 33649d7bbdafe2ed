"""What the surrogate predicts, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import METRICS

#: Half the width of a normal distribution's interval of 90 % in its standard deviations; what `Surrogate` covers by
#: default.
_DEVIATIONS = 1.645


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted metrics with their intervals.

    Attributes:
        mean: float64, shape (n_configs, n_metrics), columns in the order of `metrics`.
        low: Lower bounds, same shape.
        high: Upper bounds, same shape.
        metrics: What the columns are: `METRICS`, but of rows that are no configurations.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    metrics: tuple[str, ...] = field(default=METRICS, kw_only=True)

    def __len__(self) -> int:
        return len(self.mean)

    def column(self, metric: str, bound: str = "mean") -> NDArray[np.float64]:
        """Returns the column of `metric` in `bound` (mean, low or high), float64, shape (n_configs,)."""
        values: NDArray[np.float64] = getattr(self, bound)
        return values[:, self.metrics.index(metric)]

    def spread(self, metric: str) -> NDArray[np.float64]:
        """Returns the standard deviation that the interval of `metric` implies, float64, shape (n_configs,).

        Of the natural logarithm of a metric, and of accuracy itself; as if the interval were a normal distribution's
        that covers 90 %. 0 where nothing is uncertain, such as the memory of a device that is not there.
        """
        low, high = self.column(metric, "low"), self.column(metric, "high")
        width = np.zeros(len(low))
        if metric == "val_accuracy":
            width = high - low
        else:
            np.log(high, out=width, where=high > low)
            width[high > low] -= np.log(low[high > low])
        return width / (2 * _DEVIATIONS)

    def one_sided(self, metric: str, bound: str) -> NDArray[np.float64]:
        """Returns the standard deviation towards `bound` (low or high), in the units of `spread`, shape (n_configs,).

        Intervals need not be symmetric: what a known learning curve has reached is certain, what lies beyond is not.
        """
        mean, end = self.column(metric), self.column(metric, bound)
        if metric != "val_accuracy":
            mean, end = np.log(np.maximum(mean, 1e-300)), np.log(np.maximum(end, 1e-300))
        return np.asarray(np.abs(end - mean) / _DEVIATIONS)

    def take(self, rows: NDArray[np.int64]) -> Prediction:
        """Returns the prediction of `rows` alone."""
        return Prediction(self.mean[rows], self.low[rows], self.high[rows], metrics=self.metrics)


#: Predicts encoded configurations, int64, shape (n_configs, n_knobs), as a `SearchSpace` encodes them.
Predict = Callable[[NDArray[np.int64]], Prediction]
