"""How often a node is somebody's in-neighbour: what caches are ranked by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays

# bincount widens its input to int64: in pieces, so that a large graph costs 128 MiB and not twice its size.
_PIECE = 1 << 24


def neighbour_entries(graph: GraphArrays) -> NDArray[np.int64]:
    """Returns the neighbour entries that each node takes (its out-degree), int64, shape (num_nodes,)."""
    entries = np.zeros(graph.num_nodes, dtype=np.int64)
    for start in range(0, graph.num_edges, _PIECE):
        entries += np.bincount(graph.indices[start : start + _PIECE], minlength=graph.num_nodes)
    return entries


def hottest_first(graph: GraphArrays) -> NDArray[np.int32]:
    """Returns all nodes by falling neighbour entries, ties by rising id, int32, shape (num_nodes,)."""
    return np.argsort(-neighbour_entries(graph), kind="stable").astype(np.int32)
