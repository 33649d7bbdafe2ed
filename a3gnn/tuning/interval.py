"""`Interval`: a predicted figure, and where nine of ten measurements of it are expected to lie."""

from __future__ import annotations

import math
from typing import NamedTuple

from a3gnn.prediction import Prediction


class Interval(NamedTuple):
    """A predicted figure; never a measured one.

    Attributes:
        mean: What is predicted.
        low: The lower bound of its interval of 90 %.
        high: The upper bound.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, prediction: Prediction, row: int, metric: str) -> Interval:
        """Returns what `prediction` says of `metric` in its `row`."""
        return cls(*(float(prediction.column(metric, bound)[row]) for bound in cls._fields))

    def over(self, other: Interval) -> Interval:
        """Returns the ratio to `other`, both positive; their errors are taken to be independent."""
        log = math.log(self.mean / other.mean)
        low = math.hypot(math.log(self.mean / self.low), math.log(other.high / other.mean))
        high = math.hypot(math.log(self.high / self.mean), math.log(other.mean / other.low))
        return Interval(math.exp(log), math.exp(log - low), math.exp(log + high))

    def scaled(self, factor: float, offset: float = 0.0) -> Interval:
        """Returns `factor` times what exceeds `offset`; the factor is positive."""
        return Interval(*(factor * (value - offset) for value in self))

    def to_dict(self) -> dict[str, float]:
        """Returns the fields as JSON types."""
        return self._asdict()
