"""`PositionMaps`: relabelling maps that calls of a sampler take and give back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class PositionMaps:
    """Keeps an int32 per node for each call at once, all zero (`a3gnn.sampling.relabelling`). Thread-safe.

    A call that fails midway gives none back, so that all that are here are zero.

    Args:
        num_nodes: Of the graph.
    """

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._free: list[NDArray[np.int32]] = []

    def take(self) -> NDArray[np.int32]:
        """Returns a map, zeros, int32, shape (num_nodes,)."""
        try:
            return self._free.pop()
        except IndexError:
            return np.zeros(self._num_nodes, dtype=np.int32)

    def give_back(self, position: NDArray[np.int32]) -> None:
        """Keeps `position`, which is zero again, for a later call."""
        self._free.append(position)
