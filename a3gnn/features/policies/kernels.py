"""Compiled kernels of the dynamic policies: look-up, and admission of a query's misses. All release the GIL.

Each policy is textbook: hits are noted first, then misses are admitted one by one, in order, each in the slot of the
policy's victim. All take constant time a node, amortised. `slot_of` maps nodes to slots and `node_of` slots to nodes,
-1 where there is none; slots that never held a row are the first victims.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit
from numpy.typing import NDArray

from a3gnn.features.intrinsics import pointer


@njit(cache=True, nogil=True)
def look_up(slot_of: NDArray[np.int32], ids: NDArray[np.int32], slots: NDArray[np.int32]) -> int:
    """Writes the slot of each of `ids` to `slots`, -1 for a miss; returns the hits."""
    hits = 0
    for i in range(len(ids)):
        slot = slot_of[ids[i]]
        slots[i] = slot
        hits += slot >= 0
    return hits


@njit(cache=True, nogil=True)
def admitted(
    slot_of: NDArray[np.int32], ids: NDArray[np.int32], slots: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns which of `ids` missed (`slots` is -1) and are cached now, as places in `ids`, and their slots, int32."""
    places, targets = np.empty_like(slots), np.empty_like(slots)
    count = 0
    for i in range(len(ids)):
        if slots[i] < 0 and slot_of[ids[i]] >= 0:
            places[count] = i
            targets[count] = slot_of[ids[i]]
            count += 1
    return places[:count], targets[:count]


@njit(cache=True, nogil=True)
def redirect(base: int, row_bytes: int, slots: NDArray[np.int32], addresses: NDArray[np.int64]) -> None:
    """Overwrites the addresses of the rows that have a slot (`slots` >= 0) in a cache that begins at `base`."""
    for i in range(len(slots)):
        if slots[i] >= 0:
            addresses[i] = base + slots[i] * row_bytes


@njit(cache=True, nogil=True)
def keep_rows(
    addresses: NDArray[np.int64],
    places: NDArray[np.int32],
    targets: NDArray[np.int32],
    rows: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Copies, for i from `low` to `high`, the row at `addresses[places[i]]` as it is to `rows[targets[i]]`."""
    for i in range(low, high):
        row, target = carray(pointer(addresses[places[i]]), (rows.shape[1],), rows.dtype), rows[targets[i]]
        for j in range(rows.shape[1]):
            target[j] = row[j]


@njit(cache=True, nogil=True, inline="always")
def _replace(slot_of: NDArray[np.int32], node_of: NDArray[np.int32], slot: int, node: int) -> None:
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
    """Admits misses to a circular buffer, whose next slot is `tail[0]`; hits change nothing (BGL, section 4)."""
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
    """Admits misses where the hand finds no reference bit; it clears those that it passes.

    A hit sets the bit. A row comes in without one: it earns its second chance.
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
def _unlink(before: NDArray[np.int32], after: NDArray[np.int32], item: int) -> None:
    after[before[item]] = after[item]
    before[after[item]] = before[item]


@njit(cache=True, nogil=True, inline="always")
def _link(before: NDArray[np.int32], after: NDArray[np.int32], item: int, follower: int) -> None:
    """Puts `item` before `follower`."""
    before[item] = before[follower]
    after[item] = follower
    after[before[follower]] = item
    before[follower] = item


@njit(cache=True, nogil=True)
def lru(
    slot_of: NDArray[np.int32],
    node_of: NDArray[np.int32],
    before: NDArray[np.int32],
    after: NDArray[np.int32],
    ids: NDArray[np.int32],
    slots: NDArray[np.int32],
) -> None:
    """Admits misses in place of the rows that were read longest ago.

    Slots are a doubly linked ring, oldest first; its last item, len(node_of), is both its ends.
    """
    end = len(node_of)
    for i in range(len(ids)):
        if slots[i] >= 0:
            _unlink(before, after, slots[i])
            _link(before, after, slots[i], end)
    for i in range(len(ids)):
        if slots[i] < 0 and slot_of[ids[i]] < 0:
            slot = after[end]
            _replace(slot_of, node_of, slot, ids[i])
            _unlink(before, after, slot)
            _link(before, after, slot, end)


@njit(cache=True, nogil=True)
def lfu(
    slot_of: NDArray[np.int32],
    node_of: NDArray[np.int32],
    rings: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    buckets: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    ids: NDArray[np.int32],
    slots: NDArray[np.int32],
) -> None:
    """Admits misses in place of the rows that were read least often since they came; of those, the longest ago.

    Slots of one frequency are a ring, oldest first; the rings are a ring by rising frequency (Shah, Mitra and Matani,
    2010). `rings` is (before, after, bucket): the slots' links, then each bucket's end of its ring, and the slots'
    buckets. `buckets` is (before, after, frequency); bucket 0 is both ends, and begins the chain of unused buckets
    through frequency[0].
    """
    for i in range(len(ids)):
        if slots[i] >= 0:
            bucket = rings[2][slots[i]]
            _promote(rings, buckets, slots[i], bucket, buckets[2][bucket] + 1)
    for i in range(len(ids)):
        if slots[i] < 0 and slot_of[ids[i]] < 0:
            lowest = buckets[1][0]
            slot = rings[1][len(node_of) + lowest]
            _replace(slot_of, node_of, slot, ids[i])
            _promote(rings, buckets, slot, lowest if buckets[2][lowest] <= 1 else 0, 1)


@njit(cache=True, nogil=True)
def _promote(
    rings: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    buckets: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
    slot: int,
    below: int,
    frequency: int,
) -> None:
    """Moves `slot` to the end of the bucket of `frequency`, which is `below` or comes right after it."""
    before, after, bucket_of = rings
    ends = len(bucket_of)
    old, target = bucket_of[slot], below
    if below == 0 or buckets[2][below] != frequency:
        target = buckets[1][below]
        if target == 0 or buckets[2][target] != frequency:
            fresh = buckets[2][0]
            buckets[2][0] = buckets[1][fresh]
            _link(buckets[0], buckets[1], fresh, target)
            buckets[2][fresh] = frequency
            before[ends + fresh] = after[ends + fresh] = ends + fresh
            target = fresh
    _unlink(before, after, slot)
    _link(before, after, slot, ends + target)
    bucket_of[slot] = target
    if after[ends + old] == ends + old:
        _unlink(buckets[0], buckets[1], old)
        buckets[1][old] = buckets[2][0]
        buckets[2][0] = old
