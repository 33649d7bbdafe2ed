"""Exhaustive search: finds the true front of the predictions, if the space can be enumerated."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.search.searchable import ENUMERABLE, Searchable, Space


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
