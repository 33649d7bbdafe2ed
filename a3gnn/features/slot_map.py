"""`SlotMap`: maps nodes to the slots of a dynamic cache, under one of the dynamic policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.errors import UsageError, unknown_name
from a3gnn.features import cache_kernels as kernels
from a3gnn.storage.compiled import readonly

#: Each policy's kernel, and a function that makes its state arrays for a number of slots.
_POLICIES: dict[str, tuple[Callable[..., None], Callable[[int], tuple[NDArray[Any], ...]]]] = {
    "fifo": (kernels.fifo, lambda _slots: (np.zeros(1, dtype=np.int32),)),
    "clock": (kernels.clock, lambda slots: (np.zeros(1, dtype=np.int32), np.zeros(slots, dtype=np.uint8))),
}


class NodeMap:
    """Maps nodes to the slots of a cache.

    Args:
        num_slots: Rows that the cache holds.
        num_nodes: Nodes of the graph.
    """

    def __init__(self, num_slots: int, num_nodes: int) -> None:
        self.num_slots = num_slots
        self._slot_of = np.full(num_nodes, -1, dtype=np.int32)

    @property
    def position(self) -> NDArray[np.int32]:
        """Each node's slot, -1 for none: int32, shape (num_nodes,), read-only; changes with `admit`."""
        return readonly(self._slot_of)

    @property
    def nbytes(self) -> int:
        """Bytes of all maps."""
        return self._slot_of.nbytes

    def look_up(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
        """Returns the slot of each of `ids`, -1 for a miss, int32, and the number of hits. Changes nothing."""
        slots = np.empty(len(ids), dtype=np.int32)
        return slots, int(kernels.look_up(self._slot_of, ids, slots))


class SlotMap(NodeMap):
    """Maps nodes to slots, and chooses which slot a miss gets (BGL, section 3.2.1).

    Maps are flat arrays: CACHE_INDEX_BYTES per node of the graph and `slot_bytes` per slot. Not thread-safe: callers
    must serialize their queries (`FairLock`).

    Args:
        policy: fifo or clock.
        num_slots: Rows that the cache holds, >= 0.
        num_nodes: Nodes of the graph.

    Raises:
        UsageError: The policy is unknown, or `num_slots` negative.
    """

    def __init__(self, policy: str, num_slots: int, num_nodes: int) -> None:
        if policy not in _POLICIES:
            raise unknown_name("policy", policy, _POLICIES)
        if num_slots < 0:
            raise UsageError(f"num_slots must be >= 0, got {num_slots}; 0 caches nothing")
        super().__init__(num_slots, num_nodes)
        self.policy = policy
        self._node_of = np.full(num_slots, -1, dtype=np.int32)
        self._admit, state = _POLICIES[policy]
        self._state = state(num_slots) if num_slots else ()

    @property
    def nbytes(self) -> int:
        """Bytes of all maps."""
        return super().nbytes + self._node_of.nbytes + sum(array.nbytes for array in self._state)

    def admit(self, ids: NDArray[np.int32], slots: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Records a query's hits and admits its misses, in order, at most as many as there are slots.

        Rows that the query hit may be evicted, so read them first.

        Args:
            ids: The query, int32.
            slots: The result of `look_up` for it.

        Returns:
            Indices into `ids` of the misses that have a slot now, and those slots, int32.
        """
        if self.num_slots:
            self._admit(self._slot_of, self._node_of, *self._state, ids, slots)
        missed, targets = kernels.admitted(self._slot_of, ids, slots)
        return missed, targets


class FixedMap(NodeMap):
    """Maps nodes to slots and never changes; `SlotMap` is its dynamic counterpart. Thread-safe.

    Args:
        nodes: The cached nodes, in the order of their slots: int32, distinct.
        num_nodes: Nodes of the graph.
    """

    def __init__(self, nodes: NDArray[np.int32], num_nodes: int) -> None:
        super().__init__(len(nodes), num_nodes)
        self._slot_of[nodes] = np.arange(len(nodes), dtype=np.int32)

    def admit(self, ids: NDArray[np.int32], _slots: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns no index and no slot, because nothing is ever admitted."""
        return ids[:0], ids[:0]


def slot_bytes(policy: str) -> int:
    """Returns the bytes per slot that `policy`'s maps take: 4 (fifo) or 5 (clock)."""
    one, two = (SlotMap(policy, slots, 0).nbytes for slots in (1, 2))
    return two - one


def slots_that_fit(policy: str, cache_bytes: int, num_nodes: int, row_bytes: int) -> int:
    """Returns how many rows of `row_bytes` fit in a cache of `cache_bytes` with its maps, at most `num_nodes`."""
    fixed = SlotMap(policy, 1, 0).nbytes - slot_bytes(policy)
    room = cache_bytes - CACHE_INDEX_BYTES * num_nodes - fixed
    return max(0, min(num_nodes, room // (row_bytes + slot_bytes(policy))))


def warm_up() -> None:
    """Compiles every policy's kernel, or loads it from numba's cache, before any timing."""
    ids = np.arange(2, dtype=np.int32)
    for policy in _POLICIES:
        slots = SlotMap(policy, 1, 2)
        slots.admit(ids, slots.look_up(ids)[0])
