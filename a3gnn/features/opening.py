"""Opens the feature store of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import AHEAD, DYNAMIC_POLICIES, STATIC_POLICIES, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.ahead import AheadCache
from a3gnn.features.cache import DenseRowCache, DynamicCache, SparseStaticCache, StaticCache
from a3gnn.features.cache_kernels import log_not_sampled
from a3gnn.features.cache_ranking import cached_nodes
from a3gnn.features.device_store import DeviceCachedStore
from a3gnn.features.host_store import DenseHostStore, SparseHostStore
from a3gnn.features.row_table import AGGREGATORS
from a3gnn.features.slot_map import warm_up as warm_up_policies
from a3gnn.features.store import FeatureStore
from a3gnn.features.stored_rows import DenseRows, SparseRows, StoredRows, rows_of
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.halves import halves_beside, values_of
from a3gnn.sampling.subgraph import Block
from a3gnn.storage.compiled import readonly
from a3gnn.storage.mapping import file_behind

#: Returns the nodes whose rows a static cache of a number of bytes holds.
_Ranked: TypeAlias = Callable[[int], NDArray[np.int32]]


def open_features(
    graph: Graph,
    config: TrainConfig,
    parts: NDArray[np.int32] | None = None,
    device: str = "cpu",
    *,
    fanouts: Sequence[Any] = (25, 10),
    table: DenseFeatures | SparseFeatures | None = None,
    cached: NDArray[np.int32] | None = None,
) -> FeatureStore:
    """Returns the store of `graph`'s features, or of a `table`'s rows, with `config`'s tier and cache.

    * ram: all rows in anonymous memory; with `parts`, only the current part's rows, and the rest on disk.
    * disk: rows are read from the memory-mapped graph; a graph in RAM is written to the cache folder first.
    * float16: rows are converted in the copy to RAM; for the disk, once, to a file beside the graph.
    * cache: rows that fit in `config.cache_bytes`, by `config.cache_policy`. They are on the device if it is CUDA and
      the rows are dense, else in RAM. The policy ahead has its rows in RAM, and none if features are in RAM. A policy
      changes the store's `stats`, never the values that it returns.

    Args:
        graph: In RAM or on disk.
        config: The fields used are `feature_tier`, `feature_dtype`, `cache_bytes`, `cache_policy`, `input_aggregation`
            (which decides whether a table is needed), and `batch_size` for `access`.
        parts: Each node's part, int32, shape (num_nodes,), for training part by part.
        device: Device of the training.
        fanouts: In-neighbors sampled per node, the seeds' hop first, for `access`.
        table: Rows to serve in place of the features, one per node, as memory maps; of `config.feature_dtype`.
        cached: The nodes of a static cache, int32, sorted; None ranks them by the policy.

    Raises:
        UsageError: The policy is not static and the rows are sparse; or the table is missing with input_aggregation
            full, or given without it.
        ConfigError: A feature is beyond float16's range.
    """
    _check_table(config, table)
    from_disk = config.feature_tier == "disk" or parts is not None
    base = base_rows(graph, config, from_disk) if table is None else _table_rows(table, from_disk)
    size, config = (graph.features if table is None else table).shape, config.canonical()

    def rank(nbytes: int) -> NDArray[np.int32]:
        if cached is not None:
            return cached
        policy, batch_size = config.cache_policy, config.batch_size
        return cached_nodes(graph, nbytes, policy, fanouts=fanouts, batch_size=batch_size, rows=base)

    kept = parts if config.feature_tier == "ram" else None
    if isinstance(base, SparseRows):
        sparse = partial(SparseHostStore, base, *size, parts=kept, owns_base=not from_disk)
        return _sparse_store(sparse, base, config, graph.num_nodes, rank)
    dense = partial(DenseHostStore, base, *size, parts=kept, owns_base=not from_disk)
    return _dense_store(dense, base, config, graph.num_nodes, rank, device)


def base_rows(graph: Graph, config: TrainConfig, from_disk: bool) -> StoredRows:
    """Returns all rows of `graph` in `config.feature_dtype`: memory-mapped if `from_disk`, else in anonymous memory.

    Raises:
        ConfigError: A feature is beyond float16's range.
    """
    halves, is_file = config.feature_dtype == "float16", is_on_disk(graph.features) or graph.folder is not None
    if from_disk and (halves or not is_file):
        graph = graph.on_disk()
        return rows_of(halves_beside(graph, graph.features, "features") if halves else graph.features)
    rows = rows_of(graph.features)
    if from_disk or not (halves or is_file):
        return rows
    return rows.halved() if halves else rows.copied()


def is_on_disk(features: DenseFeatures | SparseFeatures) -> bool:
    """Returns whether `features` are memory maps of files that this process opened."""
    return file_behind(values_of(features)) is not None


def _check_table(config: TrainConfig, table: DenseFeatures | SparseFeatures | None) -> None:
    if (config.input_aggregation == "full") != (table is not None):
        raise UsageError(
            "input_aggregation must be full with a table for the input layer and sampled without, got "
            f"{config.input_aggregation}; `Trainer` and `Loader` make the table"
        )


def _table_rows(table: DenseFeatures | SparseFeatures, from_disk: bool) -> StoredRows:
    """Returns all rows of `table`, memory-mapped if `from_disk`, else in anonymous memory."""
    rows = rows_of(table)
    return rows if from_disk else rows.copied()


def _dense_store(
    host: Callable[..., DenseHostStore],
    base: DenseRows,
    config: TrainConfig,
    num_nodes: int,
    rank: _Ranked,
    device: str,
) -> FeatureStore:
    policy, cache_bytes = config.cache_policy, config.cache_bytes
    if policy == AHEAD:
        from_disk = config.feature_tier == "disk"
        return host(cache=AheadCache.that_fits(base, num_nodes, cache_bytes) if from_disk else None)
    if device != "cpu":
        if policy in DYNAMIC_POLICIES:
            return DeviceCachedStore.dynamic(host(), base, cache_bytes, [device], policy) or host()
        nodes = rank(cache_bytes)
        return DeviceCachedStore.static(host(), base, nodes, [device], policy) if len(nodes) else host()

    def cache_of(cache_bytes: int) -> DenseRowCache | None:
        if policy in DYNAMIC_POLICIES:
            return DynamicCache.that_fits(base, cache_bytes, num_nodes, policy)
        nodes = rank(cache_bytes)
        return StaticCache(base, nodes, num_nodes, policy) if len(nodes) else None

    return host(cache=cache_of(cache_bytes), cache_of=cache_of)


def _sparse_store(
    host: Callable[..., SparseHostStore], base: SparseRows, config: TrainConfig, num_nodes: int, rank: _Ranked
) -> FeatureStore:
    policy = config.cache_policy
    if policy not in STATIC_POLICIES:
        raise UsageError(
            f"cache_policy {policy} needs dense features, got sparse ones; use one of {', '.join(STATIC_POLICIES)}"
        )

    def cache_of(cache_bytes: int) -> SparseStaticCache | None:
        nodes = rank(cache_bytes)
        return SparseStaticCache(base, nodes, num_nodes, policy) if len(nodes) else None

    return host(cache=cache_of(config.cache_bytes), cache_of=cache_of)


def warm_up() -> None:
    """Compiles every kernel of the feature stores, or loads it from numba's cache, before any timing."""
    warm_up_policies()
    ids, one = np.arange(2, dtype=np.int32), np.zeros(1, dtype=np.int32)
    indptr, columns = np.arange(3, dtype=np.int64), np.zeros(2, dtype=np.int32)
    log_not_sampled(readonly(indptr), readonly(columns), 1, np.zeros(2))
    block = Block(one.repeat(2), one[:0], 2, 1)
    for dtype in (np.float32, np.float16):
        dense = DenseRows.of(DenseFeatures(np.zeros((2, 1), dtype=dtype)))
        sparse = SparseRows.of(SparseFeatures(np.ones(2, dtype=dtype), columns, indptr, (2, 1)))
        SparseHostStore(sparse, 2, 1, cache=SparseStaticCache(sparse, one, 2)).read(ids)
        for cache in (StaticCache(dense, one, 2), DynamicCache.that_fits(dense, 64, 2, "fifo")):
            store = DenseHostStore(dense, 2, 1, cache=cache)
            store.read(ids)
            for aggregator in AGGREGATORS:
                store.read_aggregated(ids, block, aggregator)
