"""Compiled kernels of the caches: look-up, redirection, copies, and one per dynamic policy. All release the GIL.

A policy's kernel gets one query: `ids`, and their `slots` from the look-up, -1 for a miss. It first records the hits.
Then it admits the misses one by one, in order, each to the slot that the policy evicts. Both are textbook policies and
take amortized constant time per node. `slot_of` maps nodes to slots and `node_of` slots to nodes, -1 for none; empty
slots are filled before any row is evicted. `position` maps nodes to rows of a static cache, -1 for none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import pointer


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


@njit(cache=True, nogil=True, inline="always")
def _replace(slot_of: NDArray[np.int32], node_of: NDArray[np.int32], slot: int, node: int) -> None:
    """Evicts the node in `slot`, if any, and maps `node` to it."""
    if node_of[slot] >= 0:
        slot_of[node_of[slot]] = -1
    node_of[slot] = node
    slot_of[node] = slot


@njit(cache=True, nogil=True)
def fifo(
    slot_of: NDArray[np.int32],
    node_of: NDArray[np.int32],
    tail: NDArray[np.int32],
    ids: NDArray[np.int32],
    slots: NDArray[np.int32],
) -> None:
    """FIFO: a circular buffer whose next slot is `tail[0]`; hits change nothing (BGL, section 4)."""
    slot = tail[0]
    for i in range(len(ids)):
        if slots[i] < 0 and slot_of[ids[i]] < 0:
            _replace(slot_of, node_of, slot, ids[i])
            slot = slot + 1 if slot + 1 < len(node_of) else 0
    tail[0] = slot


@njit(cache=True, nogil=True)
def clock(
    slot_of: NDArray[np.int32],
    node_of: NDArray[np.int32],
    hand: NDArray[np.int32],
    referenced: NDArray[np.uint8],
    ids: NDArray[np.int32],
    slots: NDArray[np.int32],
) -> None:
    """CLOCK: the hand evicts the next row whose reference bit is clear, and clears the bits that it passes.

    A hit sets the bit. A row is admitted with its bit clear, so it gets a second chance only after a hit.
    """
    for i in range(len(ids)):
        if slots[i] >= 0:
            referenced[slots[i]] = 1
    slot = hand[0]
    for i in range(len(ids)):
        if slots[i] < 0 and slot_of[ids[i]] < 0:
            while referenced[slot]:
                referenced[slot] = 0
                slot = slot + 1 if slot + 1 < len(node_of) else 0
            _replace(slot_of, node_of, slot, ids[i])
            slot = slot + 1 if slot + 1 < len(node_of) else 0
    hand[0] = slot


@njit(cache=True, nogil=True)
def want_rows(
    state: NDArray[np.int32],
    last: NDArray[np.int32],
    ids: NDArray[np.int32],
    place: int,
    chunk: int,
    loads: NDArray[np.int64],
    frees: NDArray[np.int64],
    add: bool,
) -> None:
    """Counts what the mini-batch `place` changes if it needs the rows of `ids`, and marks them if `add`.

    `state` is a node's slot; -1 if no mini-batch needs it, and -2 minus the last mini-batch that does if its row is not
    held. `last` has the last mini-batch per slot. `loads` counts rows to read per chunk of `chunk` nodes, and `frees`
    rows that nobody needs after each mini-batch.
    """
    frees[place] = len(ids)
    for i in range(len(ids)):
        at = state[ids[i]]
        if at >= 0:
            frees[last[at]] -= 1
            if add:
                last[at] = place
        else:
            if at == -1:
                loads[ids[i] // chunk] += 1
            else:
                frees[-2 - at] -= 1
            if add:
                state[ids[i]] = -2 - place


@njit(cache=True, nogil=True)
def wanted_rows(state: NDArray[np.int32], low: int, high: int) -> NDArray[np.int32]:
    """Returns the nodes from `low` to `high` that mini-batches need and whose rows are not held, int32, ascending."""
    found, count = np.empty(high - low, dtype=np.int32), 0
    for node in range(low, high):
        if state[node] < -1:
            found[count] = node
            count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def place_rows(
    state: NDArray[np.int32], last: NDArray[np.int32], ids: NDArray[np.int32], slots: NDArray[np.int32]
) -> None:
    """Notes that `slots` hold the rows of `ids`, which mini-batches need."""
    for i in range(len(ids)):
        last[slots[i]] = -2 - state[ids[i]]
        state[ids[i]] = slots[i]


@njit(cache=True, nogil=True)
def release_rows(
    state: NDArray[np.int32],
    last: NDArray[np.int32],
    ids: NDArray[np.int32],
    place: int,
    chunk: int,
    loads: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Forgets the rows of `ids` that no mini-batch needs after `place`; returns the slots that held them, int32."""
    slots, count = np.empty(len(ids), dtype=np.int32), 0
    for i in range(len(ids)):
        at = state[ids[i]]
        if at >= 0 and last[at] == place:
            slots[count] = at
            count += 1
            state[ids[i]] = -1
        elif at == -2 - place:
            loads[ids[i] // chunk] -= 1
            state[ids[i]] = -1
    return slots[:count].copy()


@njit(cache=True, nogil=True)
def block_bounds(ids: NDArray[np.int32], row_bytes: int, gap_bytes: int, most_bytes: int) -> NDArray[np.int64]:
    """Returns where blocks of rows begin among ascending `ids`, and the end, int64.

    Blocks have at most `most_bytes`, or one row, and no gap above `gap_bytes` between two rows.
    """
    bounds, count = np.empty(len(ids) + 1, dtype=np.int64), 0
    for i in range(len(ids)):
        begin = ids[bounds[count - 1]] if count else 0
        gap = (ids[i] - ids[i - 1] - 1) * row_bytes if i else 0
        if i == 0 or gap > gap_bytes or (ids[i] + 1 - begin) * row_bytes > most_bytes:
            bounds[count] = i
            count += 1
    bounds[count] = len(ids)
    return bounds[: count + 1]
