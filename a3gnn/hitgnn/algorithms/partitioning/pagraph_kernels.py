"""The compiled loop of PaGraph's partitioner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.partitioning.greedy_kernels import reach_of
from a3gnn.storage.compiled import njit


@njit(nogil=True, cache=True)
def deal_out(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], order: NDArray[np.int32], num_parts: int, hops: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns the part of each node, int32, -1 if no train node reaches it, and the size of each part, int64.

    Args:
        indptr: The graph's row starts.
        indices: The graph's in-neighbors.
        order: The train nodes, in the order of their assignment.
        num_parts: Number of parts.
        hops: Hops of the in-neighborhoods.
    """
    num_nodes = len(indptr) - 1
    home = np.full(num_nodes, -1, dtype=np.int32)
    owner = np.full(num_nodes, -1, dtype=np.int32)  # only of train nodes: the members of TV_i
    member = np.zeros((num_nodes, (num_parts + 7) // 8), dtype=np.uint8)  # a bit per part: the members of PV_i
    seen, reach = np.full(num_nodes, -1, dtype=np.int32), np.empty(num_nodes, dtype=np.int32)
    train, sizes = np.zeros(num_parts, dtype=np.int64), np.zeros(num_parts, dtype=np.int64)
    common = np.zeros(num_parts, dtype=np.int64)
    mean = len(order) / num_parts
    for v in order:
        count = reach_of(indptr, indices, v, hops, seen, reach)
        common[:] = 0
        for i in range(1, count):
            if owner[reach[i]] >= 0:
                common[owner[reach[i]]] += 1
        part = _highest(common, train, sizes, mean)
        owner[v] = part
        train[part] += 1
        byte, bit = part // 8, np.uint8(1 << (part % 8))
        for i in range(count):
            u = reach[i]
            if home[u] < 0:
                home[u] = part
            if not member[u, byte] & bit:
                member[u, byte] |= bit
                sizes[part] += 1
    for v in order:
        home[v] = owner[v]
    return home, sizes


@njit(nogil=True, cache=True)
def _highest(common: NDArray[np.int64], train: NDArray[np.int64], sizes: NDArray[np.int64], mean: float) -> int:
    """Returns the part with the highest score; ties go to the fewest train nodes, the fewest nodes, the lower number.

    Args:
        common: |TV_i ∩ IN(v)| of each part.
        train: |TV_i|.
        sizes: |PV_i|.
        mean: TV_avg.
    """
    best, best_key = 0, (-np.inf, np.int64(0), np.int64(0))
    for part in range(len(common)):
        score = common[part] * (mean - train[part]) / max(sizes[part], 1)
        key = (score, -train[part], -sizes[part])
        if key > best_key:
            best, best_key = part, key
    return best
