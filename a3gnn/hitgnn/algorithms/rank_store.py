"""`open_rank_store`: the features of one rank: what it keeps in its device's memory, and host memory for the rest."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.caches.cache import CacheStats, StatsCounter
from a3gnn.features.caches.static import StaticCache
from a3gnn.features.opening import base_rows
from a3gnn.features.rows.stored import DenseRows, SparseRows
from a3gnn.features.stores.dense import DenseHostStore
from a3gnn.features.stores.device import DeviceCachedStore
from a3gnn.features.stores.store import ReadResult
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.sampling.kernel_types import readonly

#: What the store's counts say in place of a cache's policy.
_POLICY = "stored"


def open_rank_store(
    graph: Graph, config: TrainConfig, stored: Stored, device: str = "cpu"
) -> DenseHostStore | DeviceCachedStore:
    """Returns the features of a rank that keeps `stored`; of these columns, where it keeps some of them alone.

    Rows that are kept are a copy in the device's memory. Every other row comes straight from host memory, never from
    another device (HitGNN, section V-B), by one read, which counts it: `stats.misses`.

    Args:
        graph: The graph.
        config: Its `feature_tier` and `feature_dtype` say how host memory has the rows.
        stored: What is kept.
        device: Whose memory: cpu, or a CUDA device.

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
    """Some columns of all rows, in the memory of a rank that trains on the host: it lacks no row.

    Args:
        base: Those columns, in anonymous memory.
        num_nodes: Rows.
        num_features: Columns.
    """

    can_aggregate = False

    def __init__(self, base: DenseRows, num_nodes: int, num_features: int) -> None:
        super().__init__(base, num_nodes, num_features, owns_base=True)
        self._counter = StatsCounter(_POLICY)

    @property
    def stats(self) -> CacheStats:
        """Rows that were read so far: each is a hit."""
        return self._counter.stats

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Returns these columns of the rows of `ids` (`FeatureStore.read`)."""
        x, _ = super().read(ids, out)
        self._counter.add(len(ids), 0, 0.0)
        return ReadResult(x, len(ids))


def warm_up() -> None:
    """Compiles what such stores need beside others, or loads it from numba's cache."""
    rows, ids = DenseRows.of(DenseFeatures(np.zeros((2, 1), dtype=np.float32))), np.arange(2, dtype=np.int32)
    DenseHostStore(rows, 2, 1, cache=StaticCache(rows, ids[:1], 2)).read(ids)


def dense_rows(graph: Graph, config: TrainConfig) -> DenseRows:
    """Returns all rows in host memory; arguments and errors are those of `open_rank_store`."""
    base = base_rows(graph, config, config.feature_tier == "disk")
    if isinstance(base, SparseRows):
        raise UsageError("the features of ranks that store a part of them must be dense, got sparse ones")
    return base


def _columns(rows: DenseRows, first: int, end: int) -> DenseRows:
    """Returns a copy of some columns of `rows`, in anonymous memory."""
    return DenseRows(readonly(np.array(rows.array[:, first:end])))
