"""Stores of a rank's features: some in its device's memory, and the rest in host memory.

A rank reads missing rows straight from host memory (HitGNN, section V-B). With `RelayedStore` it reads them from the
rank that stores them. That store exists to measure the gain of direct reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.cache import CacheStats, StaticCache, StatsCounter
from a3gnn.features.device_store import DeviceCachedStore
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.opening import base_rows
from a3gnn.features.row_table import Aggregator
from a3gnn.features.slot_map import FixedMap
from a3gnn.features.store import ReadResult
from a3gnn.features.stored_rows import DenseRows, SparseRows
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.ranks.group import TorchRanks
from a3gnn.sampling.subgraph import Block
from a3gnn.storage.compiled import readonly

#: The policy's name in the store's counts.
_POLICY = "stored"


def open_rank_store(
    graph: Graph, config: TrainConfig, stored: Stored, device: str = "cpu"
) -> DenseHostStore | DeviceCachedStore:
    """Returns the features of a rank that stores `stored`; if it stores only some columns, returns only these.

    Stored rows are a copy in the device's memory. Every other row comes directly from host memory, never from another
    device (HitGNN, section V-B). One read fetches it, and counts it in `stats.misses`.

    Args:
        graph: The graph.
        config: Its `feature_tier` and `feature_dtype` decide the form of rows in host memory.
        stored: The rows or columns to store.
        device: Device that stores them: cpu, or a CUDA device.

    Raises:
        UsageError: The features are sparse.
        ConfigError: A feature is beyond float16's range.
    """
    from_disk, base = config.feature_tier == "disk", dense_rows(graph, config)
    if stored.is_split(graph):
        base, from_disk = _columns(base, *stored.columns), False
        if device == "cpu":
            return ColumnStore(base, graph.num_nodes, stored.width)
    host = partial(DenseHostStore, base, graph.num_nodes, stored.width, owns_base=not from_disk)
    if device != "cpu":
        return DeviceCachedStore.static(host(), base, stored.nodes, [device], _POLICY)
    return host(cache=StaticCache(base, stored.nodes, graph.num_nodes, _POLICY))


class ColumnStore(DenseHostStore):
    """Some columns of all rows, in the memory of a rank that trains on the host; there are no misses.

    Args:
        base: The columns, in anonymous memory.
        num_nodes: Number of rows.
        num_features: Number of columns.
    """

    can_aggregate = False

    def __init__(self, base: DenseRows, num_nodes: int, num_features: int) -> None:
        super().__init__(base, num_nodes, num_features, owns_base=True)
        self._counter = StatsCounter(_POLICY)

    @property
    def stats(self) -> CacheStats:
        """Rows read so far; each counts as a hit."""
        return self._counter.stats

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns these columns of the rows of `ids` (`FeatureStore.read`)."""
        x, _ = super().read(ids, out)
        self._counter.add(len(ids), 0, 0.0)
        return ReadResult(x, len(ids))


def warm_up() -> None:
    """Compiles the kernels that only these stores need, or loads them from numba's cache."""
    rows, ids = DenseRows.of(DenseFeatures(np.zeros((2, 1), dtype=np.float32))), np.arange(2, dtype=np.int32)
    DenseHostStore(rows, 2, 1, cache=StaticCache(rows, ids[:1], 2)).read(ids)


def dense_rows(graph: Graph, config: TrainConfig) -> DenseRows:
    """Returns all rows in host memory; takes arguments and raises errors of `open_rank_store`."""
    base = base_rows(graph, config, config.feature_tier == "disk")
    if isinstance(base, SparseRows):
        raise UsageError("features must be dense if ranks store a part of them, got sparse features")
    return base


def _columns(rows: DenseRows, first: int, end: int) -> DenseRows:
    """Returns a copy of some columns of `rows`, in anonymous memory."""
    return DenseRows(readonly(np.array(rows.array[:, first:end])))


class RelayedStore:
    """A `FeatureStore` that all ranks read at the same time, once per iteration, each in its training thread.

    A missing row is copied from the device of a rank that stores it to host memory, and from there to this device, so
    its bytes are copied twice. A row that no rank stores is copied straight from host memory.

    Args:
        base: All rows, in host memory.
        stored: The rows that each rank stores.
        device: This rank's device.
    """

    is_sparse = False
    can_aggregate = False

    def __init__(self, base: DenseRows, stored: Sequence[Stored], ranks: TorchRanks, device: str) -> None:
        self._base, self._ranks = base, ranks
        num_nodes, self.num_features = base.array.shape
        self.cached, self.device = stored[ranks.rank].nodes, torch.device(device).type
        self._position = FixedMap(self.cached, num_nodes).position
        self._rows = torch.from_numpy(np.array(base.take(self.cached).array)).to(device)
        self._owner = np.full(num_nodes, -1, dtype=np.int32)
        for rank, one in reversed(list(enumerate(stored))):
            self._owner[one.nodes] = rank
        self.row_bytes, self.cache_bytes = base.row_bytes, self._rows.nbytes + self._position.nbytes
        self.host_bytes = self._position.nbytes + self._owner.nbytes + (self._rows.nbytes if device == "cpu" else 0)
        self._counter = StatsCounter("relayed")

    @property
    def stats(self) -> CacheStats:
        """Numbers of rows that were stored here, and that were not, so far."""
        return self._counter.stats

    def enter_part(self, part: int) -> None:
        """Does nothing: no rows are stored for one part only."""

    def relayed(self, ids: NDArray[np.int32]) -> int:
        """Returns the number of rows of `ids` that another rank sends."""
        return int(((self._position[ids] < 0) & (self._owner[ids] >= 0)).sum())

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns the rows of `ids` (`FeatureStore.read`); every rank calls it.

        Raises:
            PeerLostError: Another rank has ended, or does not answer.
        """
        begin, position = perf_counter(), self._position[ids]
        x = torch.empty(len(ids), self.num_features, device=self._rows.device) if out is None else out
        here, lacking = np.flatnonzero(position >= 0), np.flatnonzero(position < 0)
        self._put(x, here, self._rows[torch.from_numpy(position[here]).to(self._rows.device, torch.int64)])
        owner = self._owner[ids[lacking]]
        nobody = lacking[owner < 0]
        self._put(x, nobody, torch.from_numpy(self._base.array[ids[nobody]]))
        asked = [lacking[owner == rank] for rank in range(self._ranks.size)]
        self._put(x, np.concatenate(asked), self._fetch([ids[places] for places in asked]))
        self._counter.add(len(here), len(lacking), perf_counter() - begin)
        return ReadResult(x, len(here))

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> ReadResult:
        """Always raises, because rows come from several places (`can_aggregate` is False).

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "read_aggregated needs rows in one place, but several ranks store them; read the rows, then aggregate"
        )

    def _fetch(self, asked: list[NDArray[np.int32]]) -> torch.Tensor:
        """Returns the rows requested from each rank, in the order of ranks, in host memory."""
        counts = [torch.tensor([len(ids)]) for ids in asked]
        wanted = [int(count) for count in self._ranks.swap(counts, [1] * len(asked))]
        ids = self._ranks.swap([torch.from_numpy(one) for one in asked], wanted)
        given = [self._rows[torch.from_numpy(self._position[one.numpy()]).to(self._rows.device).long()] for one in ids]
        width = self.num_features
        found = self._ranks.swap([rows.cpu().flatten() for rows in given], [width * len(one) for one in asked])
        return torch.cat(found).view(-1, width)

    def _put(self, x: torch.Tensor, places: NDArray[np.intp], rows: torch.Tensor) -> None:
        x.index_copy_(0, torch.from_numpy(places).to(x.device), rows.to(x.device, x.dtype))
