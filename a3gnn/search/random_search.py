"""Random search: the baseline of every other engine."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.searchable import Searchable
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
