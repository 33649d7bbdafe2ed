"""`open_rank_store`: opens the features of one rank: some in its device's memory, and the rest in host memory."""

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
        raise UsageError("the features of ranks that store a part of them must be dense, got sparse ones")
    return base


def _columns(rows: DenseRows, first: int, end: int) -> DenseRows:
    """Returns a copy of some columns of `rows`, in anonymous memory."""
    return DenseRows(readonly(np.array(rows.array[:, first:end])))
