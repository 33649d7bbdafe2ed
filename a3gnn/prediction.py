"""What the surrogate predicts, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import METRICS


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted metrics with their intervals.

    Attributes:
        mean: float64, shape (n_configs, n_metrics), columns in the order of `METRICS`.
        low: Lower bounds, same shape.
        high: Upper bounds, same shape.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.mean)

    def column(self, metric: str, bound: str = "mean") -> NDArray[np.float64]:
        """Returns the column of `metric` in `bound` (mean, low or high), float64, shape (n_configs,)."""
        values: NDArray[np.float64] = getattr(self, bound)
        return values[:, METRICS.index(metric)]

    def take(self, rows: NDArray[np.int64]) -> Prediction:
        """Returns the prediction of `rows` alone."""
        return Prediction(self.mean[rows], self.low[rows], self.high[rows])


#: Predicts encoded configurations, int64, shape (n_configs, n_knobs), as a `SearchSpace` encodes them.
Predict = Callable[[NDArray[np.int64]], Prediction]
