"""Random and exhaustive search: the baselines of every other engine."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.search.searchable import ENUMERABLE, Searchable, Space
from a3gnn.seeding import derive, generator

#: Rounds of random draws before an enumerable space is enumerated to find new rows. Guess.
_ROUNDS = 4


class RandomSearcher:
    """Draws rows uniformly from the grid, without repetition."""

    def __init__(self, problem: Searchable, seed: int) -> None:
        self._candidates = CandidatePool(problem, seed)

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns `count` random rows; fewer only if the space is exhausted."""
        return self._candidates.draw(count)

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Learns nothing."""


class CandidatePool:
    """Remembers the canonical rows that a searcher has asked for, and draws from the others."""

    def __init__(self, problem: Searchable, seed: int) -> None:
        self._problem = problem
        self._seed = seed
        self._asked: set[int] = set()
        self._draws = 0

    def take(self, rows: NDArray[np.int64], count: int | None = None) -> NDArray[np.int64]:
        """Returns the first `count` (or all) new rows of `rows`, made canonical, and marks them as asked."""
        rows = self._problem.space.canonical(rows)
        keep: list[int] = []
        for at, key in enumerate(self._problem.keys(rows).tolist()):
            if len(keep) == count:
                break
            if key not in self._asked:
                self._asked.add(key)
                keep.append(at)
        return rows[keep]

    def draw(self, count: int) -> NDArray[np.int64]:
        """Returns up to `count` random new rows; fewer only if the space is exhausted.

        A search can't exhaust a space that is too large to enumerate.
        """
        space, enumerable = self._problem.space, self._problem.enumerable
        drawn = np.empty((0, len(space.nvec)), dtype=np.int64)
        rounds = range(_ROUNDS) if enumerable else itertools.count()
        for _ in rounds:
            if len(drawn) == count:
                break
            self._draws += 1
            sample = space.sample(2 * (count - len(drawn)), derive(self._seed, "unasked", self._draws))
            drawn = np.concatenate([drawn, self.take(sample, count - len(drawn))])
        if len(drawn) < count:
            drawn = np.concatenate([drawn, self.take(self._every, count - len(drawn))])
        return drawn

    @cached_property
    def _every(self) -> NDArray[np.int64]:
        """Every canonical row, in random order."""
        return generator(self._seed, "unasked.every").permutation(self._problem.space.enumerate())


class ExhaustiveSearcher:
    """Asks for every canonical row in sorted order.

    Raises:
        UsageError: The space is too large to enumerate.
    """

    def __init__(self, problem: Searchable, seed: int) -> None:
        check_enumerable(problem.space)
        self._rows = problem.space.enumerate()
        self._next = 0

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns the next `count` rows, none after the last."""
        rows = self._rows[self._next : self._next + count]
        self._next += len(rows)
        return rows

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Learns nothing."""


class Grid:
    """Every canonical row of an enumerable problem, with its prediction. As a `Predict`, it only looks rows up.

    Attributes:
        rows: int64, shape (n, n_knobs), sorted.
        prediction: Prediction of `rows`.

    Raises:
        UsageError: The space is too large to enumerate.
    """

    def __init__(self, problem: Searchable) -> None:
        check_enumerable(problem.space)
        self.rows = problem.space.enumerate()
        self.prediction = problem.predict(self.rows)
        self._problem = problem
        self._keys = problem.keys(self.rows)  # in ascending order, as the rows are

    def __call__(self, rows: NDArray[np.int64]) -> Prediction:
        """Returns the prediction of `rows`, which may repeat and need not be canonical."""
        canonical = self._problem.space.canonical(rows)
        return self.prediction.take(np.searchsorted(self._keys, self._problem.keys(canonical)))

    @cached_property
    def front_costs(self) -> NDArray[np.float64]:
        """Costs of the feasible front, float64, shape (n_front, 3); empty if nothing is feasible."""
        objectives = self._problem.objectives
        feasible = objectives.limits.violation(self.prediction) == 0
        costs: NDArray[np.float64] = objectives.costs(self.prediction)[feasible]
        return costs[non_dominated(costs)]


def check_enumerable(space: Space) -> None:
    """Raises a `UsageError` if `space` is too large to enumerate."""
    if space.num_distinct > ENUMERABLE:
        raise UsageError(
            f"a space must have at most {ENUMERABLE:,} configurations to be searched exhaustively, got "
            f"{space.num_distinct:,}; fix knobs, narrow ranges, or take another engine"
        )
