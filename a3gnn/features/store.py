"""Opens the feature store that a configuration asks for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.features.aggregate import AGGREGATORS
from a3gnn.features.cache import Tier, cached_nodes
from a3gnn.features.device import DeviceFeatures
from a3gnn.features.host import HostFeatures
from a3gnn.features.result import FeatureStore
from a3gnn.features.rows import rows_of
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.subgraph import Block


def open_features(
    graph: Graph, config: TrainConfig, parts: NDArray[np.int32] | None = None, device: str = "cpu"
) -> FeatureStore:
    """Returns the store of `graph`'s features with `config`'s tier and cache.

    * ram: all rows in anonymous memory; with `parts`, the current part's rows alone, in front of the disk.
    * disk: rows are read from the memory-mapped graph, which is written to the cache folder first if it isn't on disk.
    * cache: the hottest rows that fit in `config.cache_bytes`, by degree: on the device where that is CUDA and the
      rows are dense, else in RAM.

    Args:
        graph: The graph.
        config: Its `feature_tier` and `cache_bytes` matter.
        parts: Each node's part, int32, shape (num_nodes,), where training goes part by part.
        device: Where mini-batches are trained.
    """
    from_disk = config.feature_tier == "disk" or parts is not None
    source = graph.on_disk() if from_disk else graph
    base = rows_of(source.features)
    copy = not from_disk and source.folder is not None
    if copy:
        base = base.copied()
    cached = cached_nodes(graph, config.cache_bytes) if config.cache_bytes else np.empty(0, dtype=np.int32)
    on_device = device != "cpu" and len(cached) > 0 and not graph.features.is_sparse
    host = HostFeatures(
        base,
        graph.num_nodes,
        graph.num_features,
        cached=np.empty(0, dtype=np.int32) if on_device else cached,
        parts=parts if config.feature_tier == "ram" else None,
        owns_base=not from_disk,
    )
    if not on_device:
        return host
    return DeviceFeatures(host, Tier.of(base, cached, graph.num_nodes), cached, device)


def warm_up() -> None:
    """Compiles every kernel of the feature store or loads it from numba's cache, so that no measurement holds that."""
    ids, one = np.arange(2, dtype=np.int32), np.zeros(1, dtype=np.int32)
    indptr, columns = np.arange(3, dtype=np.int64), np.zeros(2, dtype=np.int32)
    for dtype in (np.float32, np.float16):
        dense = DenseFeatures(np.zeros((2, 1), dtype=dtype))
        sparse = SparseFeatures(np.ones(2, dtype=dtype), columns, indptr, (2, 1))
        for features in (dense, sparse):
            HostFeatures(rows_of(features), 2, 1, cached=one).read(ids)
        block = Block(one.repeat(2), one[:0], 2, 1)
        for aggregator in AGGREGATORS:
            HostFeatures(rows_of(dense), 2, 1, cached=one).read_aggregated(ids, block, aggregator)
