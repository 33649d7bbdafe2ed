"""The first half of local search: NSGA-II with operators for small integers, a generation at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.search.domination import crowding, non_dominated_ranks

#: Rows that survive a generation. Guess.
POPULATION = 64


class Evolution:
    """A population that breeds rows: uniform crossover, then mutation of one knob in the mean.

    A mutated knob goes one value up or down, or to any value, with equal chances.

    Attributes:
        rows: The population, int64, shape (n, n_knobs), n <= `POPULATION`.
    """

    def __init__(self, nvec: NDArray[np.int64], random: np.random.Generator) -> None:
        self.rows = np.empty((0, len(nvec)), dtype=np.int64)
        self._nvec = nvec
        self._random = random
        self._costs = np.empty((0, 0))
        self._violation = np.empty(0)

    def breed(self, count: int) -> NDArray[np.int64]:
        """Returns `count` children, which may repeat and need not be canonical, int64, shape (count, n_knobs)."""
        first, second = (self.rows[self._tournament(count)] for _ in range(2))
        children = np.where(self._random.random(first.shape) < 0.5, first, second)
        step = children + self._random.choice([-1, 1], size=children.shape)
        anywhere = self._random.integers(0, self._nvec, size=children.shape)
        mutated = np.where(self._random.random(children.shape) < 0.5, step, anywhere)
        chosen = self._random.random(children.shape) < 1 / max(1, int((self._nvec > 1).sum()))
        bred = np.where(chosen, mutated, children)
        return np.asarray(np.clip(bred, 0, self._nvec - 1), dtype=np.int64)

    def take(self, rows: NDArray[np.int64], costs: NDArray[np.float64], violation: NDArray[np.float64]) -> None:
        """Adds `rows`, none of which it has had, and lets the best `POPULATION` of all survive."""
        if len(self.rows):
            rows = np.concatenate([self.rows, rows])
            costs = np.concatenate([self._costs, costs])
            violation = np.concatenate([self._violation, violation])
        rank = non_dominated_ranks(costs, violation)
        crowded = crowding(costs, rank)
        best = np.lexsort((-crowded, rank))[:POPULATION]
        self.rows, self._costs, self._violation = rows[best], costs[best], violation[best]

    def _tournament(self, count: int) -> NDArray[np.int64]:
        """Returns the winners of `count` pairs: survivors are in order of rank and crowding, so the smaller index."""
        winners: NDArray[np.int64] = self._random.integers(0, len(self.rows), size=(count, 2)).min(axis=1)
        return winners
