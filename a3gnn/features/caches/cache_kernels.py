"""Compiled kernels that all caches share: look-up, redirected and copied rows, expected access. All release the GIL.

`position` and `slot_of` map each node to its row in a cache, -1 if it has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from a3gnn.features.rows.intrinsics import pointer
from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def look_up(slot_of: NDArray[np.int32], ids: NDArray[np.int32], slots: NDArray[np.int32]) -> int:
    """Writes the slot of each of `ids` to `slots`, -1 for a miss; returns the number of hits."""
    hits = 0
    for i in range(len(ids)):
        slot = slot_of[ids[i]]
        slots[i] = slot
        hits += slot >= 0
    return hits


@njit(cache=True, nogil=True)
def split(
    position: NDArray[np.int32], ids: NDArray[np.int32], where: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Splits `ids`, destined for rows `where` of an output, into hits and misses; both keep their order.

    Returns:
        The positions and `where` of the hits, then the ids and `where` of the misses, int32.
    """
    hits, hits_where = np.empty_like(ids), np.empty_like(where)
    misses, misses_where = np.empty_like(ids), np.empty_like(where)
    found = 0
    for i in range(len(ids)):
        row = position[ids[i]]
        if row >= 0:
            hits[found] = row
            hits_where[found] = where[i]
            found += 1
        else:
            misses[i - found] = ids[i]
            misses_where[i - found] = where[i]
    lost = len(ids) - found
    return hits[:found], hits_where[:found], misses[:lost], misses_where[:lost]


@njit(cache=True, nogil=True)
def redirect_nodes(
    base: int, row_bytes: int, position: NDArray[np.int32], ids: NDArray[np.int32], addresses: NDArray[np.int64]
) -> int:
    """Overwrites the addresses of those `ids` that a cache at address `base` holds; returns their number."""
    found = 0
    for i in range(len(ids)):
        row = position[ids[i]]
        if row >= 0:
            addresses[i] = base + row * row_bytes
            found += 1
    return found


@njit(cache=True, nogil=True)
def redirect_slots(base: int, row_bytes: int, slots: NDArray[np.int32], addresses: NDArray[np.int64]) -> None:
    """Overwrites the addresses of the hits (`slots` >= 0) of a cache at address `base`."""
    for i in range(len(slots)):
        if slots[i] >= 0:
            addresses[i] = base + slots[i] * row_bytes


@njit(cache=True, nogil=True)
def admitted(
    slot_of: NDArray[np.int32], ids: NDArray[np.int32], slots: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the indices of `ids` that missed (`slots` is -1) and are cached now, and their slots, int32."""
    missed, targets = np.empty_like(slots), np.empty_like(slots)
    count = 0
    for i in range(len(ids)):
        if slots[i] < 0 and slot_of[ids[i]] >= 0:
            missed[count] = i
            targets[count] = slot_of[ids[i]]
            count += 1
    return missed[:count], targets[:count]


@njit(cache=True, nogil=True)
def store_rows(
    addresses: NDArray[np.int64],
    missed: NDArray[np.int32],
    targets: NDArray[np.int32],
    rows: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Copies the row at `addresses[missed[i]]`, as stored, to `rows[targets[i]]`, for i from `low` to `high`."""
    for i in range(low, high):
        row, target = carray(pointer(addresses[missed[i]]), (rows.shape[1],), rows.dtype), rows[targets[i]]
        for j in range(rows.shape[1]):
            target[j] = row[j]


@njit(cache=True, nogil=True)
def log_not_sampled(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], fanout: int, expanded: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns each node's log probability that no destination samples it, float64, shape (num_nodes,).

    `expanded` is each destination's probability of being expanded. An expanded destination samples each in-neighbor
    with probability min(1, fanout / degree), or 1 if `fanout` is -1.
    """
    total = np.zeros(len(expanded), dtype=np.float64)
    for u in range(len(expanded)):
        degree = indptr[u + 1] - indptr[u]
        if expanded[u] > 0 and degree > 0:
            share = 1.0 if fanout < 0 else min(1.0, fanout / degree)
            term = np.log1p(-min(expanded[u] * share, 1.0 - 1e-15))
            for e in range(indptr[u], indptr[u + 1]):
                total[indices[e]] += term
    return total
