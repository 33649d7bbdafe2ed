"""Local search: NSGA-II while it gains, Pareto local search when it stalls (Paquete et al., 2004).

Costs: smaller is better. Constrained domination, ranks and crowding are those of Deb et al. (2002).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.search.baselines import CandidatePool
from a3gnn.search.searchable import Searchable
from a3gnn.seeding import generator

#: Rows that survive a generation. Guess.
POPULATION = 64
#: NSGA-II has stalled when fewer than this share of a generation enters the archive. Guess.
_STALLED = 0.15
#: Divisor of the evaluations that gives the number of random rows to start from. Measured with 64, 256, 512 and 1,000
#: of 3,000 evaluations on the three problems in docs/design/search.md: 256 found most of the fronts, and 64 sometimes
#: missed a part.
_RANDOM_DIVISOR = 12
#: Children bred per requested row, because most of them repeat earlier rows. Guess.
_OFFSPRING_PER_REQUEST = 3


class LocalSearch:
    """Starts from random rows, then improves the front: asks for rows bred from it, or for its neighbors.

    Args:
        problem: The space, its predictions and the objectives.
        seed: Decides everything random.
        evaluations: Number of rows that will be requested. One in `_RANDOM_DIVISOR` of them is random, to start from.
        candidates: The pool of requested rows, if another searcher shares it; a new one by default.
    """

    def __init__(
        self, problem: Searchable, seed: int, evaluations: int = 3000, candidates: CandidatePool | None = None
    ) -> None:
        self._problem = problem
        self._random_left = evaluations // _RANDOM_DIVISOR
        self._candidates = CandidatePool(problem, seed) if candidates is None else candidates
        # The name "finisher" decides the random numbers, so it stays.
        self._evolution = Evolution(problem.space.nvec, generator(seed, "finisher"))
        self._archive = Archive(len(problem.space.nvec))
        self._gain = 1.0

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns `count` new rows, neighbors, bred or random ones; fewer only if the space is exhausted."""
        if self._random_left > 0:
            return self._candidates.draw(count)
        neighbors = self._neighbors(count) if self._gain < _STALLED else self._archive.rows[:0]
        rows = np.concatenate([neighbors, self._children(count - len(neighbors))])
        return np.concatenate([rows, self._candidates.draw(count - len(rows))])

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Takes new rows, also those that another searcher asked for."""
        objectives = self._problem.objectives
        self._random_left -= len(rows)
        costs, violation = objectives.costs(prediction), objectives.limits.violation(prediction)
        self._evolution.take(rows, costs, violation)
        self._gain = self._archive.take(rows, costs, violation) / max(1, len(rows))

    def _children(self, count: int) -> NDArray[np.int64]:
        if not len(self._evolution.rows) or count < 1:
            return self._archive.rows[:0]
        return self._candidates.take(self._evolution.breed(_OFFSPRING_PER_REQUEST * count), count)

    def _neighbors(self, count: int) -> NDArray[np.int64]:
        """Returns up to `count` new neighbors of the archive's rows, expanding one row after the other."""
        found = self._archive.rows[:0]
        for i in np.flatnonzero(~self._archive.expanded):
            wanted = count - len(found)
            fresh = self._candidates.take(self._problem.space.neighbors(self._archive.rows[i]), wanted)
            found = np.concatenate([found, fresh])
            if len(fresh) == wanted:  # the row may have more neighbors
                break
            self._archive.expanded[i] = True
        return found


class Archive:
    """Non-dominated feasible rows; while there are none, the rows with the least violation.

    Attributes:
        rows: int64, shape (n, n_knobs).
        costs: float64, shape (n, n_objectives).
        violation: Equal for all rows, and 0 once a row is feasible, float64, shape (n,).
        expanded: Whether all neighbors of a row have been requested, bool, shape (n,).
    """

    def __init__(self, num_knobs: int, num_objectives: int = 3) -> None:
        self.rows = np.empty((0, num_knobs), dtype=np.int64)
        self.costs = np.empty((0, num_objectives))
        self.violation = np.empty(0)
        self.expanded = np.empty(0, dtype=np.bool_)

    def take(self, rows: NDArray[np.int64], costs: NDArray[np.float64], violation: NDArray[np.float64]) -> int:
        """Adds the rows that belong into the archive, drops the ones they replace, and returns the number added."""
        old = len(self.rows)
        rows, costs = np.concatenate([self.rows, rows]), np.concatenate([self.costs, costs])
        violation = np.concatenate([self.violation, violation])
        expanded = np.concatenate([self.expanded, np.zeros(len(rows) - old, dtype=np.bool_)])
        least = np.flatnonzero(violation == violation.min(initial=np.inf))
        keep = least[non_dominated(costs[least])]
        self.rows, self.costs, self.violation, self.expanded = rows[keep], costs[keep], violation[keep], expanded[keep]
        return int((keep >= old).sum())


class Evolution:
    """A population that breeds rows by uniform crossover, then mutates one knob on average.

    A mutated knob moves one value up or down, or to any value, with equal probability.

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
        """Adds `rows`, which must be new, and keeps the best `POPULATION` of all."""
        if len(self.rows):
            rows = np.concatenate([self.rows, rows])
            costs = np.concatenate([self._costs, costs])
            violation = np.concatenate([self._violation, violation])
        rank = non_dominated_ranks(costs, violation)
        crowded = crowding(costs, rank)
        best = np.lexsort((-crowded, rank))[:POPULATION]
        self.rows, self._costs, self._violation = rows[best], costs[best], violation[best]

    def _tournament(self, count: int) -> NDArray[np.int64]:
        """Returns the winners of `count` random pairs: the smaller indices, as rows are sorted by rank and crowding."""
        winners: NDArray[np.int64] = self._random.integers(0, len(self.rows), size=(count, 2)).min(axis=1)
        return winners


def non_dominated_ranks(costs: NDArray[np.float64], violation: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the front that each row belongs to, 0 for the best, int64, shape (n,).

    A feasible row dominates an infeasible one, and a smaller violation dominates a larger one. Rows with equal
    violation, such as feasible rows, compare by costs. Takes n x n comparisons, so it suits populations of hundreds.

    Args:
        costs: float64, shape (n, n_objectives).
        violation: 0 where a row is feasible, float64, shape (n,).
    """
    no_worse = (costs[:, None] <= costs[None]).all(axis=2)
    better = (costs[:, None] < costs[None]).any(axis=2)
    by_costs = no_worse & better & (violation[:, None] == violation[None])
    dominates = by_costs | (violation[:, None] < violation[None])
    found = np.full(len(costs), -1, dtype=np.int64)
    rank = 0
    while (found < 0).any():
        left = found < 0
        found[left & ~dominates[left].any(axis=0)] = rank
        rank += 1
    return found


def crowding(costs: NDArray[np.float64], rank: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the distance between each row's two neighbors in its front, infinite at the ends, float64, shape (n,)."""
    distance = np.zeros(len(costs))
    for front in np.unique(rank):
        members = np.flatnonzero(rank == front)
        for column in costs[members].T:
            order = members[np.argsort(column, kind="stable")]
            values = np.sort(column)
            span = max(values[-1] - values[0], 1e-12)
            distance[order[[0, -1]]] = np.inf
            distance[order[1:-1]] += (values[2:] - values[:-2]) / span
    return distance
