"""`Shard`: one device's part of a cache, and which nodes belong to it (BGL, section 3.2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.caches.dynamic import FairLock
from a3gnn.features.caches.slot_map import FixedMap, SlotMap


def owned(ids: NDArray[np.int32], index: int, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns which of `ids` shard `index` of `count` owns, as indices into `ids`, and their local ids; int32.

    Node v belongs to shard v % count, with local id v // count. So no row is in two shards, and the maps together are
    as long as one map of all nodes.
    """
    if count == 1:
        return np.arange(len(ids), dtype=np.int32), ids
    places = np.flatnonzero(ids % count == index).astype(np.int32)
    return places, ids[places] // np.int32(count)


class Shard:
    """Rows on one device, and the map to them on the host.

    If rows are replaced, the operations of all threads run one at a time, first come, first served. This also holds on
    the device, whichever streams they are queued on.

    Args:
        slots: Maps local ids to rows.
        rows: float32 or float16, shape (num_slots, num_features), on the device.
    """

    def __init__(self, slots: SlotMap | FixedMap, rows: torch.Tensor) -> None:
        self.rows = rows
        self._slots = slots
        self._lock = FairLock()
        self._done: torch.cuda.Event | None = None

    @property
    def map_bytes(self) -> int:
        """Bytes of the maps, on the host."""
        return self._slots.nbytes

    def read(self, ids: NDArray[np.int32], where: NDArray[np.int32], x: torch.Tensor) -> NDArray[np.bool_]:
        """Copies the cached rows of local `ids` to rows `where` of `x`; returns which of the ids miss, bool."""
        with self._exclusive():
            slots, hits = self._slots.look_up(ids)
            missed = slots < 0
            if hits:
                found = np.flatnonzero(~missed)
                self._slots.admit(ids[found], slots[found])
                rows = self.rows.index_select(0, _index(slots[found], self.rows)).to(x.device, x.dtype)
                x.index_copy_(0, _index(where[found], x), rows)
        return missed

    def admit(self, ids: NDArray[np.int32], where: NDArray[np.int32], x: torch.Tensor) -> None:
        """Admits local `ids` by the policy; they missed, and their rows are rows `where` of `x`."""
        if isinstance(self._slots, FixedMap):
            return
        with self._exclusive():
            # Another query may have admitted some of them since the look-up.
            slots, _ = self._slots.look_up(ids)
            new, targets = self._slots.admit(ids, slots)
            if len(new):
                rows = x.index_select(0, _index(where[new], x)).to(self.rows.device, self.rows.dtype)
                self.rows.index_copy_(0, _index(targets, self.rows), rows)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Waits for earlier operations: the thread on the host, the stream on the device."""
        if isinstance(self._slots, FixedMap):
            yield
            return
        with self._lock.held():
            if self._done is not None:
                torch.cuda.current_stream(self.rows.device).wait_event(self._done)
            yield
            if self.rows.is_cuda:
                self._done = torch.cuda.current_stream(self.rows.device).record_event()


def _index(rows: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(rows).to(like.device, torch.int64)
