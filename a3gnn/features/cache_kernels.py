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


@njit(cache=True, nogil=True, inline="always")
def _ones(word: int) -> int:
    """Returns the number of set bits of `word`, below 2 ** 32."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    return (((word + (word >> 4)) & 0x0F0F0F0F) * 0x01010101 & 0xFFFFFFFF) >> 24


@njit(cache=True, nogil=True)
def add_members(bits: NDArray[np.uint32], ids: NDArray[np.int32], add: bool) -> int:
    """Returns how many of `ids` are not among the set `bits`, one per node; sets theirs if `add`.

    Without `add`, an id that occurs twice counts twice.
    """
    new = 0
    for i in range(len(ids)):
        word, bit = ids[i] >> 5, ids[i] & 31
        if not (np.int64(bits[word]) >> bit) & 1:
            new += 1
            if add:
                bits[word] = np.uint32(np.int64(bits[word]) | (np.int64(1) << bit))
    return new


@njit(cache=True, nogil=True)
def count_before(bits: NDArray[np.uint32], before: NDArray[np.int32]) -> None:
    """Writes the number of set bits before each word to `before`."""
    total = 0
    for word in range(len(bits)):
        before[word] = total
        total += _ones(np.int64(bits[word]))


@njit(cache=True, nogil=True)
def members(bits: NDArray[np.uint32], low: int, high: int) -> NDArray[np.int32]:
    """Returns the nodes of the set bits in words `low` to `high`, int32, ascending."""
    found, count = np.empty(32 * (high - low), dtype=np.int32), 0
    for word in range(low, high):
        left = np.int64(bits[word])
        while left:
            found[count] = 32 * word + _ones((left & -left) - 1)
            count += 1
            left &= left - 1
    return found[:count]


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


@njit(cache=True, nogil=True)
def redirect_members(
    base: int,
    row_bytes: int,
    num_rows: int,
    bits: NDArray[np.uint32],
    before: NDArray[np.int32],
    ids: NDArray[np.int32],
    addresses: NDArray[np.int64],
) -> int:
    """Overwrites the addresses of the `ids` among the set `bits`; returns their number.

    The rows of the first `num_rows` set bits are at address `base`, in their order.
    """
    found = 0
    for i in range(len(ids)):
        word, bit = ids[i] >> 5, ids[i] & 31
        held = np.int64(bits[word])
        if (held >> bit) & 1:
            row = before[word] + _ones(held & ((np.int64(1) << bit) - 1))
            if row < num_rows:
                addresses[i] = base + row * row_bytes
                found += 1
    return found
