"""`FixedMap`: which node has which slot in a static cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.caches import cache_kernels as kernels
from a3gnn.sampling.views import readonly


class FixedMap:
    """Maps nodes to slots, the same as long as it lives; `SlotMap` is its dynamic counterpart. Thread-safe.

    Args:
        nodes: The cached nodes, in the order of their slots: int32, distinct.
        num_nodes: Nodes of the graph.
    """

    def __init__(self, nodes: NDArray[np.int32], num_nodes: int) -> None:
        self.num_slots = len(nodes)
        self._slot_of = np.full(num_nodes, -1, dtype=np.int32)
        self._slot_of[nodes] = np.arange(len(nodes), dtype=np.int32)

    @property
    def position(self) -> NDArray[np.int32]:
        """Each node's slot, -1 where it has none: int32, shape (num_nodes,), read-only."""
        return readonly(self._slot_of)

    @property
    def nbytes(self) -> int:
        """Bytes of the map."""
        return self._slot_of.nbytes

    def look_up(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
        """Returns the slot of each of `ids`, -1 for a miss, int32, and the number of hits."""
        slots = np.empty(len(ids), dtype=np.int32)
        return slots, int(kernels.look_up(self._slot_of, ids, slots))

    def admit(self, ids: NDArray[np.int32], _slots: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns no index and no slot: nothing is ever admitted."""
        return ids[:0], ids[:0]
