"""`SlotMap`: which node's row lies in which slot of a cache that changes, under one of the dynamic policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.errors import UsageError, unknown_name
from a3gnn.features.policies import kernels
from a3gnn.sampling.views import readonly


def _cursor(_slots: int) -> tuple[Any, ...]:
    return (np.zeros(1, dtype=np.int32),)


def _referenced(slots: int) -> tuple[Any, ...]:
    return np.zeros(1, dtype=np.int32), np.zeros(slots, dtype=np.uint8)


def _ring(slots: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the links (before, after) of the ring 0, 1, ..., slots, int32."""
    place = np.arange(slots + 1, dtype=np.int32)
    return np.roll(place, 1), np.roll(place, -1)


def _frequencies(slots: int) -> tuple[Any, ...]:
    """Returns LFU's rings and buckets, every slot in bucket 1, of frequency 0."""
    ends = np.arange(slots, 2 * slots + 3, dtype=np.int32)
    before, after = (np.concatenate([part[:-1], ends]) for part in _ring(slots))
    # The ring of all slots closes over bucket 1's end.
    end = slots + 1
    before[0], after[slots - 1], before[end], after[end] = end, end, slots - 1, 0
    links = np.zeros(slots + 3, dtype=np.int32)
    follows = np.arange(1, slots + 4, dtype=np.int32)  # of the unused ones: the next
    frequency = np.zeros(slots + 3, dtype=np.int32)
    links[0], follows[0], follows[1], frequency[0] = 1, 1, 0, 2
    return (before, after, np.ones(slots, dtype=np.int32)), (links, follows, frequency)


class _Mechanism(NamedTuple):
    admit: Callable[..., None]
    state: Callable[[int], tuple[Any, ...]]


_MECHANISMS: dict[str, _Mechanism] = {
    "fifo": _Mechanism(kernels.fifo, _cursor),
    "lru": _Mechanism(kernels.lru, _ring),
    "lfu": _Mechanism(kernels.lfu, _frequencies),
    "clock": _Mechanism(kernels.clock, _referenced),
}


class SlotMap:
    """Maps nodes to the slots of a cache, and chooses whose slot a miss takes (BGL, section 3.2.1).

    Maps are flat arrays: CACHE_INDEX_BYTES a node of the graph, and some bytes a slot (`slot_bytes`). Not safe to use
    from several threads at once: `Line` lets queries in one at a time.

    Args:
        policy: fifo, lru, lfu or clock.
        num_slots: Rows that the cache holds, >= 0.
        num_nodes: Nodes of the graph.

    Raises:
        UsageError: The policy is unknown, or `num_slots` negative.
    """

    def __init__(self, policy: str, num_slots: int, num_nodes: int) -> None:
        if policy not in _MECHANISMS:
            raise unknown_name("policy", policy, _MECHANISMS)
        if num_slots < 0:
            raise UsageError(f"num_slots must be >= 0, got {num_slots}; 0 caches nothing")
        self.policy = policy
        self.num_slots = num_slots
        self._slot_of = np.full(num_nodes, -1, dtype=np.int32)
        self._node_of = np.full(num_slots, -1, dtype=np.int32)
        self._admit, state = _MECHANISMS[policy]
        self._state = state(num_slots) if num_slots else ()

    @property
    def position(self) -> NDArray[np.int32]:
        """Each node's slot, -1 where it has none: int32, shape (num_nodes,), read-only; changes with `admit`."""
        return readonly(self._slot_of)

    @property
    def nbytes(self) -> int:
        """Bytes of all maps."""
        return self._slot_of.nbytes + self._node_of.nbytes + sum(map(_nbytes, self._state))

    def look_up(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
        """Returns the slot of each of `ids`, -1 for a miss, int32, and the hits. Changes nothing."""
        slots = np.empty(len(ids), dtype=np.int32)
        return slots, int(kernels.look_up(self._slot_of, ids, slots))

    def admit(self, ids: NDArray[np.int32], slots: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Notes a query's hits and admits its misses, in order; as many as there are slots, at most.

        Rows of the query itself may lose their slots to it: read them first.

        Args:
            ids: The query, int32.
            slots: What `look_up` answered.

        Returns:
            Places in `ids` of the misses that have a slot now, and those slots, int32.
        """
        if self.num_slots:
            self._admit(self._slot_of, self._node_of, *self._state, ids, slots)
        places, targets = kernels.admitted(self._slot_of, ids, slots)
        return places, targets


def slot_bytes(policy: str) -> int:
    """Returns the bytes a slot that `policy`'s maps take: 4 (fifo), 5 (clock), 12 (lru) or 36 (lfu)."""
    one, two = (SlotMap(policy, slots, 0).nbytes for slots in (1, 2))
    return two - one


def slots_that_fit(policy: str, cache_bytes: int, num_nodes: int, row_bytes: int) -> int:
    """Returns how many rows of `row_bytes` a cache of `cache_bytes` holds beside its maps, at most `num_nodes`."""
    fixed = SlotMap(policy, 1, 0).nbytes - slot_bytes(policy)
    room = cache_bytes - CACHE_INDEX_BYTES * num_nodes - fixed
    return max(0, min(num_nodes, room // (row_bytes + slot_bytes(policy))))


def _nbytes(part: Any) -> int:
    return sum(array.nbytes for array in part) if isinstance(part, tuple) else part.nbytes


def warm_up() -> None:
    """Compiles every policy's kernel or loads it from numba's cache, so that no measurement holds that time."""
    ids = np.arange(2, dtype=np.int32)
    for policy in _MECHANISMS:
        slots = SlotMap(policy, 1, 2)
        slots.admit(ids, slots.look_up(ids)[0])
