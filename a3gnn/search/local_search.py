"""Local search: NSGA-II while it gains, Pareto local search when it stalls (Paquete et al., 2004)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.archive import Archive
from a3gnn.search.candidate_pool import CandidatePool
from a3gnn.search.evolution import Evolution
from a3gnn.search.problem import Problem
from a3gnn.seeding import generator

#: NSGA-II has stalled when fewer than this share of a generation enters the archive. Guess.
_STALLED = 0.15
#: Children bred for one that is wanted, as most repeat what was asked before. Guess.
_OFFSPRING_PER_REQUEST = 3


class LocalSearch:
    """Improves the front of all that it is told, and asks for what might improve it further."""

    def __init__(self, problem: Problem, candidates: CandidatePool, seed: int) -> None:
        self._problem = problem
        self._candidates = candidates
        self._evolution = Evolution(problem.space.nvec, generator(seed, "finisher"))
        self._archive = Archive(len(problem.space.nvec))
        self._gain = 1.0

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns `count` new rows, fewer only when the space is exhausted: bred, neighbouring, or else random."""
        neighbours = self._neighbours(count) if self._gain < _STALLED else self._archive.rows[:0]
        rows = np.concatenate([neighbours, self._children(count - len(neighbours))])
        return np.concatenate([rows, self._candidates.draw(count - len(rows))])

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Takes new rows, whoever asked for them."""
        objectives = self._problem.objectives
        costs, violation = objectives.costs(prediction), objectives.limits.violation(prediction)
        self._evolution.take(rows, costs, violation)
        self._gain = self._archive.take(rows, costs, violation) / max(1, len(rows))

    def _children(self, count: int) -> NDArray[np.int64]:
        if not len(self._evolution.rows) or count < 1:
            return self._archive.rows[:0]
        return self._candidates.take(self._evolution.breed(_OFFSPRING_PER_REQUEST * count), count)

    def _neighbours(self, count: int) -> NDArray[np.int64]:
        """Returns up to `count` new neighbours of the archive's rows, expanding one row after the other."""
        found = self._archive.rows[:0]
        for i in np.flatnonzero(~self._archive.expanded):
            wanted = count - len(found)
            fresh = self._candidates.take(self._problem.space.neighbours(self._archive.rows[i]), wanted)
            found = np.concatenate([found, fresh])
            if len(fresh) == wanted:  # it may have more
                break
            self._archive.expanded[i] = True
        return found
