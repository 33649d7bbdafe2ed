"""`DeviceCachedStore`: a cache on devices in front of rows on the host; each device has a `Shard` of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.cache import CacheStats, FairLock, StatsCounter
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.row_table import Aggregator
from a3gnn.features.slot_map import FixedMap, SlotMap, slots_that_fit
from a3gnn.features.store import ReadResult
from a3gnn.features.stored_rows import DenseRows
from a3gnn.sampling.subgraph import Block


class _Missed(NamedTuple):
    """Local `ids` that missed in `shard`, and their rows `where` of the output; int32."""

    shard: Shard
    ids: NDArray[np.int32]
    where: NDArray[np.int32]


class DeviceCachedStore:
    """A `FeatureStore` of dense rows that caches and returns rows on a device (BGL, section 3.2.3).

    Misses are gathered on the host and copied to the device once; a dynamic cache then admits them. With several
    devices, each caches the nodes that it owns, and rows are returned on the first. Device-neutral: on "cpu" the same
    code works in host memory.

    Args:
        host: The store that serves misses; its own cache, if it has one, is the second level.
        shards: One per device.
        cached: The nodes that a static cache holds, int32, sorted; none with a dynamic cache.
        policy: The cache's policy.
    """

    is_sparse = False
    can_aggregate = False

    def __init__(self, host: DenseHostStore, shards: Sequence[Shard], cached: NDArray[np.int32], policy: str) -> None:
        self.host = host
        self.cached = cached
        self.device = shards[0].rows.device.type
        self.num_features = host.num_features
        self.cache_bytes = sum(shard.rows.nbytes + shard.map_bytes for shard in shards)
        self._shards = tuple(shards)
        self._counter = StatsCounter(policy)

    @classmethod
    def static(
        cls,
        host: DenseHostStore,
        base: DenseRows,
        nodes: NDArray[np.int32],
        devices: Sequence[str],
        policy: str = "degree",
    ) -> Self:
        """Returns a store with a static cache of the rows of `nodes` (int32, sorted) of `base`."""
        shards = []
        for index, device in enumerate(devices):
            places, ids = owned(nodes, index, len(devices))
            rows = torch.from_numpy(np.array(base.take(nodes[places]).array))
            shards.append(Shard(FixedMap(ids, _num_owned(len(base.array), index, len(devices))), rows.to(device)))
        return cls(host, shards, nodes, policy)

    @classmethod
    def dynamic(
        cls,
        host: DenseHostStore,
        base: DenseRows,
        cache_bytes: int,
        devices: Sequence[str],
        policy: str,
    ) -> Self | None:
        """Returns a store with a dynamic cache of at most `cache_bytes`, all devices together.

        It returns None if a device's share can't hold one row beside its maps.
        """
        shards, dtype = [], torch.float16 if base.array.dtype == np.float16 else torch.float32
        for index, device in enumerate(devices):
            num_nodes = _num_owned(len(base.array), index, len(devices))
            slots = slots_that_fit(policy, cache_bytes // len(devices), num_nodes, base.row_bytes)
            if slots == 0:
                return None
            rows = torch.empty((slots, base.array.shape[1]), dtype=dtype, device=device)
            shards.append(Shard(SlotMap(policy, slots, num_nodes), rows))
        return cls(host, shards, np.empty(0, dtype=np.int32), policy)

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds; it includes the cached rows if the device is the CPU."""
        rows = sum(shard.rows.nbytes for shard in self._shards if shard.rows.device.type == "cpu")
        return self.host.host_bytes + sum(shard.map_bytes for shard in self._shards) + rows

    @property
    def row_bytes(self) -> int:
        """Mean bytes of a row as it is stored."""
        return self.host.row_bytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of the devices' cache so far; `host.stats` are the second level's.

        Overhead is the host's time for look-up and update: copies on devices may outlast it.
        """
        return self._counter.stats

    def enter_part(self, part: int) -> None:
        """Replaces the last part's rows in RAM by the rows of `part`; does nothing if the store keeps none."""
        self.host.enter_part(part)

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns the rows of `ids` on the device, and how many were cached on either level (`FeatureStore.read`).

        Raises:
            UsageError: An id is out of range.
        """
        self.host.check(ids)
        shape = (len(ids), self.num_features)
        x = torch.empty(shape, dtype=torch.float32, device=self._shards[0].rows.device) if out is None else out
        begin, missed = perf_counter(), []
        for index, shard in enumerate(self._shards):
            where, local = owned(ids, index, len(self._shards))
            misses = shard.read(local, where, x)
            missed.append(_Missed(shard, local[misses], where[misses]))
        seconds = perf_counter() - begin
        where = np.concatenate([one.where for one in missed])
        hits, host_hits = len(ids) - len(where), 0
        if len(where):
            rows = self.host.read(ids[where], self._staging(len(where), x.dtype))
            x.index_copy_(0, torch.from_numpy(where).to(x.device, torch.int64), rows.x.to(x.device, non_blocking=True))
            begin = perf_counter()
            for one in missed:
                one.shard.admit(one.ids, one.where, x)
            seconds += perf_counter() - begin
            host_hits = rows.hits
        self._counter.add(hits, len(where), seconds)
        return ReadResult(x, hits + host_hits)

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> ReadResult:
        """Always raises, because rows on host and device can't be aggregated in one pass (`can_aggregate` is False).

        Raises:
            UsageError: Always.
        """
        raise UsageError("read_aggregated needs rows on the host, got a cache on a device; read them, then aggregate")

    def _staging(self, rows: int, dtype: torch.dtype) -> torch.Tensor:
        pinned = any(shard.rows.is_cuda for shard in self._shards)
        return torch.empty((rows, self.num_features), dtype=dtype, pin_memory=pinned)


def _num_owned(num_nodes: int, index: int, count: int) -> int:
    """Returns how many of `num_nodes` nodes shard `index` of `count` owns."""
    return len(range(index, num_nodes, count))


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
