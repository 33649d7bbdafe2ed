"""The compiled loop of a breadth-first traversal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(nogil=True, cache=True)
def visit_breadth_first(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    roots: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Returns the positions in `nodes` (distinct) in the order in which a traversal reaches them, int32.

    It starts at `nodes[roots[0]]`. When the queue is empty, it restarts at the first of `roots` whose node has not been
    reached. It ends once all `nodes` are in the order, whatever else the graph holds.
    """
    num_nodes = len(indptr) - 1
    place = np.full(num_nodes, -1, dtype=np.int32)
    for i in range(len(nodes)):
        place[nodes[i]] = i
    order = np.empty(len(nodes), dtype=np.int32)
    queue = np.empty(num_nodes, dtype=np.int32)
    reached = np.zeros(num_nodes, dtype=np.bool_)
    kept, head, tail = 0, 0, 0
    for position in roots:
        root = nodes[position]
        if reached[root]:
            continue
        reached[root] = True
        queue[tail] = root
        tail += 1
        while head < tail and kept < len(nodes):
            v = queue[head]
            head += 1
            if place[v] >= 0:
                order[kept] = place[v]
                kept += 1
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if not reached[u]:
                    reached[u] = True
                    queue[tail] = u
                    tail += 1
    return order
