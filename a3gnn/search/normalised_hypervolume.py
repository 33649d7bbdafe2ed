"""Hypervolume on one scale for all searches of a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.pareto import hypervolume

#: The reference point, in costs scaled so that the ideal point is 0 and the nadir point 1. Guess, near 1
#: so that the ends of a front do not outweigh its middle.
REFERENCE = 1.1


@dataclass(frozen=True, slots=True)
class NormalisedHypervolume:
    """Measures fronts in costs scaled by the ideal and the nadir point of a front to compare with.

    Attributes:
        ideal: Least cost of each objective, float64, shape (n_objectives,).
        span: Nadir minus ideal; 1 where they are equal.
    """

    ideal: NDArray[np.float64]
    span: NDArray[np.float64]

    @classmethod
    def fit(cls, front: NDArray[np.float64]) -> Self:
        """Returns the scale whose ideal and nadir points are those of `front`, costs (n, n_objectives), n > 0."""
        span = np.ptp(front, axis=0)
        return cls(front.min(axis=0), np.where(span > 0, span, 1.0))

    def measure(self, costs: NDArray[np.float64]) -> float:
        """Returns the hypervolume of `costs` (n, n_objectives) up to `REFERENCE` in each scaled objective."""
        scaled = (costs - self.ideal) / self.span
        return hypervolume(scaled, np.full(costs.shape[1], REFERENCE))
