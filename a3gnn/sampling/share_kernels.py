"""Compiled kernels that cut a sampled neighbourhood by its seeds. All release the GIL."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def cut_hops(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], num_nodes: int, low: int, high: int, hops: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Follows the edges of a `Subgraph` from its seeds `low` to `high`.

    Args:
        indptr: Of the whole, shape (num_rows + 1,).
        indices: Of the whole, shape (num_edges,).
        num_nodes: Nodes of the whole.
        low: First seed.
        high: Past the last seed.
        hops: Hops of the whole.

    Returns:
        What is reached, in order of discovery, as places in the whole; indptr and indices of its rows, which are whole
        rows; the place of each of its edges in the whole; and the nodes known after each hop.
    """
    position = np.zeros(num_nodes, dtype=np.int32)  # one plus the place in the cut, 0 for what is not reached
    places, sizes = np.empty(num_nodes, dtype=np.int32), np.zeros(hops + 1, dtype=np.int64)
    pointers = np.zeros(len(indptr), dtype=np.int32)
    found, edges = np.empty(len(indices), dtype=np.int32), np.empty(len(indices), dtype=np.int32)
    count = 0
    for seed in range(low, high):
        places[count] = seed
        count += 1
        position[seed] = count
    sizes[0] = count
    first, written = 0, 0
    for hop in range(hops):
        last = count
        for i in range(first, last):
            for e in range(indptr[places[i]], indptr[places[i] + 1]):
                node = indices[e]
                if position[node] == 0:
                    places[count] = node
                    count += 1
                    position[node] = count
                found[written] = position[node] - 1
                edges[written] = e
                written += 1
            pointers[i + 1] = written
        first = last
        sizes[hop + 1] = count
    return places[:count].copy(), pointers[: first + 1].copy(), found[:written].copy(), edges[:written].copy(), sizes


@njit(cache=True, nogil=True)
def owned_nodes(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], num_nodes: int, num_seeds: int, low: int, high: int
) -> NDArray[np.bool_]:
    """Returns which nodes belong to the seeds `low` to `high`, bool, shape (num_nodes,).

    A node belongs to whom the row belongs that discovered it: the first one with an edge from it. So the share that
    owns a node reaches it at the same hop as the whole does, and has it in each layer where the whole has it.
    """
    owned, known = np.zeros(num_nodes, dtype=np.bool_), np.zeros(num_nodes, dtype=np.bool_)
    owned[low:high] = True
    known[:num_seeds] = True
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            node = indices[e]
            if not known[node]:
                known[node] = True
                owned[node] = owned[i]
    return owned
