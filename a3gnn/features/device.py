"""A cache on devices in front of rows on the host."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.aggregate import Aggregator
from a3gnn.features.host import HostFeatures
from a3gnn.features.policies.fixed_map import FixedMap
from a3gnn.features.policies.slot_map import SlotMap, slots_that_fit
from a3gnn.features.policies.stats import CacheStats, Tally
from a3gnn.features.result import Rows
from a3gnn.features.rows import DenseRows
from a3gnn.features.shard import Shard, owned
from a3gnn.sampling.subgraph import Block


class DeviceFeatures:
    """A `FeatureStore` of dense rows whose cache, and whose answers, lie on a device (BGL, section 3.2.3).

    Misses are gathered on the host, cross to the device once, and meet the hits there; a cache that changes then admits
    them. With several devices each caches the nodes that are its own, and answers lie on the first. Device-neutral: on
    "cpu" it does the same in host memory.

    Args:
        host: The store that serves misses; it may have a cache of its own, the second level.
        shards: One a device.
        cached: The nodes that a static cache holds, sorted; none where the cache changes.
        policy: Of the cache.
        reason: Why that one, where it was chosen by measurement.
    """

    def __init__(
        self, host: HostFeatures, shards: Sequence[Shard], cached: NDArray[np.int32], policy: str, reason: str = ""
    ) -> None:
        self.host = host
        self.cached = cached
        self.device = shards[0].rows.device.type
        self.num_features = host.num_features
        self.is_sparse = False
        self.can_aggregate = False
        self.cache_bytes = sum(shard.rows.nbytes + shard.map_bytes for shard in shards)
        self._shards = tuple(shards)
        self._tally = Tally(policy, reason)

    @classmethod
    def holding(
        cls,
        host: HostFeatures,
        base: DenseRows,
        nodes: NDArray[np.int32],
        devices: Sequence[str],
        policy: str = "degree",
        reason: str = "",
    ) -> Self:
        """Returns the store that caches the rows of `nodes` (int32, sorted) of `base`, for good."""
        shards = []
        for index, device in enumerate(devices):
            places, names = owned(nodes, index, len(devices))
            rows = torch.from_numpy(np.array(base.take(nodes[places]).array))
            shards.append(Shard(FixedMap(names, _share(len(base.array), index, len(devices))), rows.to(device)))
        return cls(host, shards, nodes, policy, reason)

    @classmethod
    def changing(
        cls,
        host: HostFeatures,
        base: DenseRows,
        cache_bytes: int,
        devices: Sequence[str],
        policy: str,
        reason: str = "",
    ) -> Self | None:
        """Returns the store whose cache of at most `cache_bytes`, all devices together, changes by `policy`.

        None where a device's share holds no row beside its maps.
        """
        shards, dtype = [], torch.float16 if base.array.dtype == np.float16 else torch.float32
        for index, device in enumerate(devices):
            names = _share(len(base.array), index, len(devices))
            slots = slots_that_fit(policy, cache_bytes // len(devices), names, base.array[:1].nbytes)
            if slots == 0:
                return None
            rows = torch.empty((slots, base.array.shape[1]), dtype=dtype, device=device)
            shards.append(Shard(SlotMap(policy, slots, names), rows))
        return cls(host, shards, np.empty(0, dtype=np.int32), policy, reason)

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds; the cached rows count where the device is the CPU."""
        rows = sum(shard.rows.nbytes for shard in self._shards if shard.rows.device.type == "cpu")
        return self.host.host_bytes + sum(shard.map_bytes for shard in self._shards) + rows

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of the devices' cache so far; `host.stats` are the second level's.

        Overhead is the host's time for look-up and update; devices may still be copying.
        """
        return self._tally.stats

    def enter_part(self, part: int) -> None:
        """Makes `part`'s rows resident on the host, where the store keeps one part in RAM."""
        self.host.enter_part(part)

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> Rows:
        """Returns the rows of `ids` on the device, and how many either level of the cache served.

        Safe to call from several threads.

        Raises:
            UsageError: An id is out of range.
        """
        self.host.check(ids)
        shape = (len(ids), self.num_features)
        x = torch.empty(shape, dtype=torch.float32, device=self._shards[0].rows.device) if out is None else out
        begin, missed = perf_counter(), []
        for index, shard in enumerate(self._shards):
            places, names = owned(ids, index, len(self._shards))
            misses = shard.take(names, places, x)
            missed.append((shard, names[misses], places[misses]))
        seconds = perf_counter() - begin
        lost = np.concatenate([places for _, _, places in missed])
        hits, behind = len(ids) - len(lost), 0
        if len(lost):
            rows = self.host.read(ids[lost], self._staging(len(lost)))
            x.index_copy_(0, torch.from_numpy(lost).to(x.device, torch.int64), rows.x.to(x.device, non_blocking=True))
            begin = perf_counter()
            for shard, names, places in missed:
                shard.put(names, places, x)
            seconds += perf_counter() - begin
            behind = rows.hits
        self._tally.add(hits, len(lost), seconds)
        return Rows(x, hits + behind)

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> Rows:
        """Refuses: rows of two memories are not aggregated in one pass (`can_aggregate` is False).

        Raises:
            UsageError: Always.
        """
        raise UsageError("read_aggregated needs rows on the host, got a cache on a device; read them, then aggregate")

    def _staging(self, rows: int) -> torch.Tensor:
        pinned = any(shard.rows.is_cuda for shard in self._shards)
        return torch.empty((rows, self.num_features), dtype=torch.float32, pin_memory=pinned)


def _share(num_nodes: int, index: int, count: int) -> int:
    """Returns how many of `num_nodes` nodes shard `index` of `count` owns."""
    return len(range(index, num_nodes, count))
