"""Compiled kernels of the dynamic policies, one per policy: which row is replaced by which miss. All release the GIL.

A kernel gets one query: `ids`, and their `slots` from the look-up, -1 for a miss. It first records the hits. Then it
admits the misses one by one, in order, each to the slot that the policy evicts. All are textbook policies and take
amortized constant time per node. `slot_of` maps nodes to slots and `node_of` slots to nodes, -1 for none; empty slots
are filled before any row is evicted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


class SlotLists(NamedTuple):
    """LFU's slots: one circular doubly linked list per bucket; all int32.

    Attributes:
        before: Links of the slots, then the links of each bucket's sentinel.
        after: As `before`.
        bucket_of: Each slot's bucket.
    """

    before: NDArray[np.int32]
    after: NDArray[np.int32]
    bucket_of: NDArray[np.int32]


class Buckets(NamedTuple):
    """LFU's buckets, a circular doubly linked list whose sentinel is bucket 0; all int32.

    Attributes:
        before: Links.
        after: Links; for an unused bucket, the next unused one.
        frequency: Number of reads of the rows in a bucket; frequency[0] is the first unused bucket.
    """

    before: NDArray[np.int32]
    after: NDArray[np.int32]
    frequency: NDArray[np.int32]


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
    """LRU: evicts the row that was read longest ago.

    Slots are a circular doubly linked list, least recently read first; item len(node_of) is its sentinel.
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
    before: NDArray[np.int32],
    after: NDArray[np.int32],
    bucket_of: NDArray[np.int32],
    bucket_before: NDArray[np.int32],
    bucket_after: NDArray[np.int32],
    frequency: NDArray[np.int32],
    ids: NDArray[np.int32],
    slots: NDArray[np.int32],
) -> None:
    """LFU: evicts the row with the fewest reads since its admission; among equals, the one read longest ago.

    It takes constant time (Shah, Mitra and Matani, 2010). The slots of one frequency form a bucket, a list with the
    least recently read slot first. The buckets form a list by rising frequency. The arrays before `ids` are the fields
    of `SlotLists` and `Buckets`.
    """
    lists, buckets = SlotLists(before, after, bucket_of), Buckets(bucket_before, bucket_after, frequency)
    for i in range(len(ids)):
        if slots[i] >= 0:
            bucket = lists.bucket_of[slots[i]]
            _promote(lists, buckets, slots[i], bucket, buckets.frequency[bucket] + 1)
    for i in range(len(ids)):
        if slots[i] < 0 and slot_of[ids[i]] < 0:
            lowest = buckets.after[0]
            slot = lists.after[len(node_of) + lowest]
            _replace(slot_of, node_of, slot, ids[i])
            _promote(lists, buckets, slot, lowest if buckets.frequency[lowest] <= 1 else 0, 1)


# Without cache=True: numba's cache would contain the names of its argument classes, and fail after a renaming.
@njit(nogil=True)
def _promote(lists: SlotLists, buckets: Buckets, slot: int, below: int, frequency: int) -> None:
    """Moves `slot` to the end of the bucket of `frequency`: `below`, its successor, or a new one between the two."""
    sentinels = len(lists.bucket_of)
    old, target = lists.bucket_of[slot], below
    if below == 0 or buckets.frequency[below] != frequency:
        target = buckets.after[below]
        if target == 0 or buckets.frequency[target] != frequency:
            fresh = buckets.frequency[0]
            buckets.frequency[0] = buckets.after[fresh]
            _link(buckets.before, buckets.after, fresh, target)
            buckets.frequency[fresh] = frequency
            lists.before[sentinels + fresh] = lists.after[sentinels + fresh] = sentinels + fresh
            target = fresh
    _unlink(lists.before, lists.after, slot)
    _link(lists.before, lists.after, slot, sentinels + target)
    lists.bucket_of[slot] = target
    if lists.after[sentinels + old] == sentinels + old:
        _unlink(buckets.before, buckets.after, old)
        buckets.after[old] = buckets.frequency[0]
        buckets.frequency[0] = old
