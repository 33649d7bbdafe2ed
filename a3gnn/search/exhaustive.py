"""Exhaustive search: the true front of the predictions, where the space can be enumerated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.grid import check_enumerable
from a3gnn.search.searchable import Searchable


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
