"""How often a node is an in-neighbour (its out-degree), by which nodes are ranked for caches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.kernels import by_falling_count, count_entries


def neighbour_entries(graph: GraphArrays) -> NDArray[np.int64]:
    """Returns the neighbour entries that each node takes (its out-degree), int64, shape (num_nodes,)."""
    entries = np.zeros(graph.num_nodes, dtype=np.int64)
    count_entries(graph.indices, entries)
    return entries


def hottest_first(graph: GraphArrays) -> NDArray[np.int32]:
    """Returns all nodes by falling neighbour entries, ties by rising id, int32, shape (num_nodes,)."""
    order: NDArray[np.int32] = by_falling_count(neighbour_entries(graph))
    return order
