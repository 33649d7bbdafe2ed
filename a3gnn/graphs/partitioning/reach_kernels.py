"""The compiled breadth-first search by which partitioners look around a node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(nogil=True, cache=True)
def reach_of(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    start: int,
    hops: int,
    seen: NDArray[np.int32],
    reach: NDArray[np.int32],
) -> int:
    """Returns how many nodes `start` and what it reaches within `hops` hops are; sets `reach` to them, `start` first.

    Args:
        indptr: CSR.
        indices: CSR.
        start: A node that no call with the same `seen` began at before.
        hops: At least 0.
        seen: Shape (num_nodes,), -1 before the first call; changed.
        reach: Shape (num_nodes,), changed.
    """
    seen[start] = start
    reach[0] = start
    begin, count = 0, 1
    for _ in range(hops):
        end = count
        for i in range(begin, end):
            if count == len(seen):  # every node is reached: in a dense graph this avoids quadratic time
                break
            between = reach[i]
            for e in range(indptr[between], indptr[between + 1]):
                other = indices[e]
                if seen[other] != start:
                    seen[other] = start
                    reach[count] = other
                    count += 1
        begin = end
    return count
