"""Opens the feature store that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import DYNAMIC_POLICIES, STATIC_POLICIES, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.aggregate import AGGREGATORS
from a3gnn.features.cache import cached_nodes
from a3gnn.features.device import DeviceFeatures
from a3gnn.features.host import HostFeatures
from a3gnn.features.policies.auto import Choice, Place, choose_policy, trial_batches
from a3gnn.features.policies.dynamic import DynamicCache
from a3gnn.features.policies.slot_map import warm_up as warm_up_policies
from a3gnn.features.policies.static import StaticCache
from a3gnn.features.result import FeatureStore
from a3gnn.features.rows import DenseRows, FeatureRows, rows_of
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.subgraph import Block


def open_features(
    graph: Graph,
    config: TrainConfig,
    parts: NDArray[np.int32] | None = None,
    device: str = "cpu",
    *,
    fanouts: Sequence[int] = (25, 10),
    seed: int = 0,
    seeds: Iterable[NDArray[np.int32]] | None = None,
) -> FeatureStore:
    """Returns the store of `graph`'s features with `config`'s tier and cache.

    * ram: all rows in anonymous memory; with `parts`, the current part's rows alone, in front of the disk.
    * disk: rows are read from the memory-mapped graph, which is written to the cache folder first if it isn't on disk.
    * cache: rows that fit in `config.cache_bytes`, by `config.cache_policy`: on the device where that is CUDA and the
      rows are dense, else in RAM. What a policy does shows in the store's `stats`, never in what it answers.

    Args:
        graph: The graph.
        config: Its `feature_tier`, `cache_bytes` and `cache_policy` matter, and `batch_size` where that looks ahead.
        parts: Each node's part, int32, shape (num_nodes,), where training goes part by part.
        device: Where mini-batches are trained.
        fanouts: In-neighbours taken a node, the seeds' hop first: for policies that look ahead.
        seed: For those that draw mini-batches to do so.
        seeds: Of each mini-batch, in training's order, for policies that draw mini-batches; by default they shuffle
            the train nodes.

    Raises:
        UsageError: A dynamic policy is asked for, and the features are sparse.
    """
    from_disk = config.feature_tier == "disk" or parts is not None
    source = graph.on_disk() if from_disk else graph
    base = rows_of(source.features)
    if not from_disk and source.folder is not None:
        base = base.copied()
    choice = Choice(config.canonical().cache_policy)
    ahead = None if seeds is None or choice.policy not in ("presample", "auto") else list(seeds)
    rank = partial(
        cached_nodes,
        graph,
        config.cache_bytes,
        fanouts=fanouts,
        batch_size=config.batch_size,
        seed=seed,
        seeds=ahead,
    )
    kept = parts if config.feature_tier == "ram" else None
    size = (graph.num_nodes, graph.num_features)
    host = partial(HostFeatures, base, *size, parts=kept, owns_base=not from_disk)
    if choice.policy == "auto":
        place = Place(base, *size, config.cache_bytes, rank, device, resident=kept is not None)
        batches = trial_batches(graph, fanouts, config.batch_size, seed, slots=place.slots("fifo"), seeds=ahead)
        choice = choose_policy(batches, place)
    if choice.policy in DYNAMIC_POLICIES:
        return _changing(host, base, graph.num_nodes, config.cache_bytes, choice, device)
    return _holding(host, base, graph.num_nodes, rank(choice.policy), choice, device)


def _holding(
    host: Callable[..., HostFeatures],
    base: FeatureRows,
    num_nodes: int,
    nodes: NDArray[np.int32],
    choice: Choice,
    device: str,
) -> FeatureStore:
    """Returns the store whose cache holds `nodes`."""
    if not len(nodes):
        return host()
    if device != "cpu" and isinstance(base, DenseRows):
        return DeviceFeatures.holding(host(), base, nodes, [device], *choice)
    return host(cache=StaticCache(base, nodes, num_nodes, *choice))


def _changing(
    host: Callable[..., HostFeatures], base: FeatureRows, num_nodes: int, cache_bytes: int, choice: Choice, device: str
) -> FeatureStore:
    """Returns the store whose cache changes by `choice`, if any of it fits."""
    if not isinstance(base, DenseRows):
        raise UsageError(
            f"cache_policy {choice.policy} needs dense features, got sparse ones; use one of "
            f"{', '.join(STATIC_POLICIES)}, or auto"
        )
    if device != "cpu":
        return DeviceFeatures.changing(host(), base, cache_bytes, [device], *choice) or host()
    return host(cache=DynamicCache.that_fits(base, cache_bytes, num_nodes, *choice))


def warm_up() -> None:
    """Compiles every kernel of the feature store or loads it from numba's cache, so that no measurement holds that."""
    warm_up_policies()
    ids, one = np.arange(2, dtype=np.int32), np.zeros(1, dtype=np.int32)
    indptr, columns = np.arange(3, dtype=np.int64), np.zeros(2, dtype=np.int32)
    block = Block(one.repeat(2), one[:0], 2, 1)
    for dtype in (np.float32, np.float16):
        dense = DenseRows.of(DenseFeatures(np.zeros((2, 1), dtype=dtype)))
        sparse = rows_of(SparseFeatures(np.ones(2, dtype=dtype), columns, indptr, (2, 1)))
        HostFeatures(sparse, 2, 1, cache=StaticCache(sparse, one, 2)).read(ids)
        for cache in (StaticCache(dense, one, 2), DynamicCache.that_fits(dense, 64, 2, "fifo")):
            store = HostFeatures(dense, 2, 1, cache=cache)
            store.read(ids)
            for aggregator in AGGREGATORS:
                store.read_aggregated(ids, block, aggregator)
