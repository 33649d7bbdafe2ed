"""Random search: the baseline of every other engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.candidate_pool import CandidatePool
from a3gnn.search.searchable import Searchable


class RandomSearcher:
    """Draws rows uniformly from the grid, none twice."""

    def __init__(self, problem: Searchable, seed: int) -> None:
        self._candidates = CandidatePool(problem, seed)

    def ask(self, count: int) -> NDArray[np.int64]:
        """Returns `count` random rows, fewer only when the space is exhausted."""
        return self._candidates.draw(count)

    def tell(self, rows: NDArray[np.int64], prediction: Prediction) -> None:
        """Learns nothing."""
