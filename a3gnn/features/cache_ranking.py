"""Ranks nodes for a static cache: by degree or expected access."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import STATIC_POLICIES, CachePolicy
from a3gnn.errors import UsageError, unknown_name
from a3gnn.features.cache_kernels import log_not_sampled
from a3gnn.features.stored_rows import StoredRows, rows_of
from a3gnn.graphs.derived import kept_order
from a3gnn.graphs.describe import hottest_first
from a3gnn.graphs.graph import Graph
from a3gnn.storage.compiled import readonly


def cached_nodes(
    graph: Graph,
    cache_bytes: int,
    policy: CachePolicy = "degree",
    *,
    fanouts: Sequence[int] = (25, 10),
    batch_size: int = 1024,
    rows: StoredRows | None = None,
) -> NDArray[np.int32]:
    """Returns the hottest nodes whose rows fit in `cache_bytes`, int32, sorted.

    The map from node to cached row, an int32 per node, counts too: a cache that can't hold the map holds nothing.

    Args:
        graph: In RAM or on disk.
        cache_bytes: Most bytes of the cache, map included.
        policy: A static one: degree (how often a node is an in-neighbor; PaGraph) or access (the probability that a
            mini-batch needs it, `expected_access`).
        fanouts: For access: in-neighbors sampled per node, the seeds' hop first.
        batch_size: For access: seeds per mini-batch.
        rows: Rows to cache, one per node; the graph's features by default.

    Raises:
        UsageError: `cache_bytes` is negative, or the policy is not a static one.
    """
    if cache_bytes < 0:
        raise UsageError(f"cache_bytes must be >= 0, got {cache_bytes}; 0 turns the cache off")
    if policy not in STATIC_POLICIES:
        raise unknown_name("policy", policy, STATIC_POLICIES)
    rows = rows_of(graph.features) if rows is None else rows
    if cache_bytes <= CACHE_INDEX_BYTES * graph.num_nodes:
        return np.empty(0, dtype=np.int32)
    if policy == "degree":
        ranked = kept_order(graph, "order-degree", lambda: hottest_first(graph))
    else:
        name = "-".join(map(str, ("order-access", *fanouts, batch_size)))
        ranked = kept_order(graph, name, lambda: _by_access(graph, fanouts, batch_size))
    return that_fit(ranked, rows, cache_bytes, graph.num_nodes)


def _by_access(graph: Graph, fanouts: Sequence[int], batch_size: int) -> NDArray[np.int32]:
    return np.argsort(-expected_access(graph, fanouts, batch_size), kind="stable").astype(np.int32)


def that_fit(ranked: NDArray[np.int32], rows: StoredRows, cache_bytes: int, num_nodes: int) -> NDArray[np.int32]:
    """Returns the first of `ranked` whose rows and map fit in `cache_bytes`, int32, sorted."""
    room = cache_bytes - CACHE_INDEX_BYTES * num_nodes
    return np.sort(ranked[: rows.num_that_fit(ranked, room)] if room > 0 else ranked[:0])


def expected_access(graph: Graph, fanouts: Sequence[int], batch_size: int) -> NDArray[np.float64]:
    """Returns the probability that a mini-batch needs each node, float64, shape (num_nodes,).

    p_0(v) = B / |train|; p_l(v) = 1 - prod over u with v in N(u) of (1 - p_{l-1}(u) min(1, k_l / deg u)). A node is
    needed unless no hop samples it; hops are treated as independent.
    """
    hop = np.zeros(graph.num_nodes, dtype=np.float64)
    hop[graph.train_ids] = min(1.0, batch_size / max(len(graph.train_ids), 1))
    not_needed = 1.0 - hop
    for fanout in fanouts:
        log_not_in_hop = log_not_sampled(readonly(graph.indptr), readonly(graph.indices), fanout, hop)
        hop = -np.expm1(log_not_in_hop)
        not_needed *= np.exp(log_not_in_hop)
    return 1.0 - not_needed
