"""`Shard`: one device's part of a cache, and which nodes are its own (BGL, section 3.2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.policies.fixed_map import FixedMap
from a3gnn.features.policies.line import Line
from a3gnn.features.policies.slot_map import SlotMap


def owned(ids: NDArray[np.int32], index: int, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns which of `ids` shard `index` of `count` owns, as places, and what it calls them; int32.

    Node v belongs to shard v modulo `count`, which calls it v // count: no row is in two shards, and their maps
    together are as long as one map of all nodes.
    """
    if count == 1:
        return np.arange(len(ids), dtype=np.int32), ids
    places = np.flatnonzero(ids % count == index).astype(np.int32)
    return places, ids[places] // np.int32(count)


class Shard:
    """Rows on one device, and the map to them on the host.

    Where rows change, operations from any number of threads are done one at a time, in the order in which they come; on
    the device too, whichever streams they are given to.

    Args:
        slots: Maps the shard's names of nodes to rows.
        rows: float32 or float16, shape (num_slots, num_features), on the device.
    """

    def __init__(self, slots: SlotMap | FixedMap, rows: torch.Tensor) -> None:
        self.rows = rows
        self._slots = slots
        self._line = Line()
        self._done: torch.cuda.Event | None = None

    @property
    def map_bytes(self) -> int:
        """Bytes of the maps, on the host."""
        return self._slots.nbytes

    def take(self, names: NDArray[np.int32], places: NDArray[np.int32], x: torch.Tensor) -> NDArray[np.bool_]:
        """Copies the rows that are here to `places` of `x`; returns which of `names` are not, bool."""
        with self._turn():
            slots, hits = self._slots.look_up(names)
            missed = slots < 0
            if hits:
                found = np.flatnonzero(~missed)
                self._slots.admit(names[found], slots[found])
                rows = self.rows.index_select(0, _index(slots[found], self.rows)).float().to(x.device)
                x.index_copy_(0, _index(places[found], x), rows)
        return missed

    def put(self, names: NDArray[np.int32], places: NDArray[np.int32], x: torch.Tensor) -> None:
        """Admits `names`, which were missed and whose rows are at `places` of `x`, as far as the policy wants them."""
        if isinstance(self._slots, FixedMap):
            return
        with self._turn():
            # Another query may have brought some of them meanwhile.
            slots, _ = self._slots.look_up(names)
            new, targets = self._slots.admit(names, slots)
            if len(new):
                rows = x.index_select(0, _index(places[new], x)).to(self.rows.device, self.rows.dtype)
                self.rows.index_copy_(0, _index(targets, self.rows), rows)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Waits until the operations before are done: on the host, and on the device by its stream alone."""
        if isinstance(self._slots, FixedMap):
            yield
            return
        with self._line.turn():
            if self._done is not None:
                torch.cuda.current_stream(self.rows.device).wait_event(self._done)
            yield
            if self.rows.is_cuda:
                self._done = torch.cuda.current_stream(self.rows.device).record_event()


def _index(places: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(places).to(like.device, torch.int64)
