"""Compiled kernels that replace global node ids by positions in a mini-batch. All release the GIL.

`position` maps a global id to one plus its position, 0 for unseen ids: int32, shape (num_nodes,). This array is faster
than a hash map, and it is reused, because only the entries that were set are cleared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def relabel(ids: NDArray[np.int32], position: NDArray[np.int32], n_id: NDArray[np.int32], count: int) -> int:
    """Replaces global `ids` by their positions in `n_id`, appending unseen ones from `count` on; returns the new count.

    `n_id` must have room for one entry more than the returned count.
    """
    # Branch-free, because mispredictions (new or known is unpredictable) would cost more than writing in both cases.
    for e in range(len(ids)):
        node = ids[e]
        known = position[node]
        new = known == 0
        n_id[count] = node
        count += new
        known = count if new else known
        position[node] = known
        ids[e] = known - 1
    return count


@njit(cache=True, nogil=True)
def know(ids: NDArray[np.int32], first: int, position: NDArray[np.int32]) -> int:
    """Sets `position`, zero there, at `ids`, which begin at `first` in a mini-batch; for repeated ids, to the first.

    Returns:
        The number of distinct ids.
    """
    count = 0
    for i in range(len(ids) - 1, -1, -1):
        count += position[ids[i]] == 0
        position[ids[i]] = first + i + 1
    return count


@njit(cache=True, nogil=True)
def forget(ids: NDArray[np.int32], position: NDArray[np.int32]) -> None:
    """Clears `position` at `ids`, which is cheaper than clearing the whole array."""
    for i in range(len(ids)):
        position[ids[i]] = 0
