"""Which rows a static cache holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import STATIC_POLICIES, CachePolicy
from a3gnn.errors import UsageError, unknown_name
from a3gnn.features.kernels import log_unseen
from a3gnn.features.policies.presample import most_needed_first
from a3gnn.features.rows import DenseRows, FeatureRows, rows_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.hotness import hottest_first
from a3gnn.sampling.views import readonly


def cached_nodes(
    graph: Graph,
    cache_bytes: int,
    policy: CachePolicy = "degree",
    *,
    fanouts: Sequence[int] = (25, 10),
    batch_size: int = 1024,
    seed: int = 0,
    seeds: Iterable[NDArray[np.int32]] | None = None,
) -> NDArray[np.int32]:
    """Returns the hottest nodes whose rows fit in `cache_bytes`, int32, sorted.

    The map from node to cached row, an int32 a node, is counted: a cache that can't hold it holds nothing.

    Args:
        graph: The graph.
        cache_bytes: What the cache may take altogether.
        policy: A static one: degree (how often a node is an in-neighbour; PaGraph), access (the expected number of
            mini-batches that need it, by `expected_access`) or presample (how many of an epoch's first mini-batches,
            drawn on trial, need it; GNNLab).
        fanouts: For access and presample: in-neighbours taken a node, the seeds' hop first.
        batch_size: For access and presample: seeds a mini-batch.
        seed: For presample: decides seeds and neighbours.
        seeds: For presample: of each mini-batch, in training's order; by default the train nodes, shuffled.

    Raises:
        UsageError: `cache_bytes` is negative, or the policy no static one.
    """
    if cache_bytes < 0:
        raise UsageError(f"cache_bytes must be >= 0, got {cache_bytes}; 0 turns the cache off")
    if policy not in STATIC_POLICIES:
        raise unknown_name("policy", policy, STATIC_POLICIES)
    room = cache_bytes - CACHE_INDEX_BYTES * graph.num_nodes
    if room <= 0:
        return np.empty(0, dtype=np.int32)
    if policy == "degree":
        ranked = hottest_first(graph)
    elif policy == "access":
        ranked = np.argsort(-expected_access(graph, fanouts, batch_size), kind="stable").astype(np.int32)
    else:
        ranked = most_needed_first(graph, fanouts, batch_size, seed, seeds=seeds)
    return np.sort(ranked[: _rows_that_fit(rows_of(graph.features), ranked, room)])


def expected_access(graph: Graph, fanouts: Sequence[int], batch_size: int) -> NDArray[np.float64]:
    """Returns the probability that a mini-batch needs each node, float64, shape (num_nodes,).

    p_0(v) = B / |train|; p_l(v) = 1 - prod over u with v in N(u) of (1 - p_{l-1}(u) min(1, k_l / deg u)); a node is
    needed unless every hop misses it.
    """
    hop = np.zeros(graph.num_nodes, dtype=np.float64)
    hop[graph.train_ids] = min(1.0, batch_size / max(len(graph.train_ids), 1))
    missed = 1.0 - hop
    for fanout in fanouts:
        log_missed = log_unseen(readonly(graph.indptr), readonly(graph.indices), fanout, hop)
        hop = -np.expm1(log_missed)
        missed *= np.exp(log_missed)
    return 1.0 - missed


def _rows_that_fit(rows: FeatureRows, ranked: NDArray[np.int32], room: int) -> int:
    if isinstance(rows, DenseRows):
        return min(len(ranked), room // max(int(rows.array[:1].nbytes), 1))
    indptr, indices, data = rows.csr
    entry = indices.itemsize + data.itemsize
    sizes = np.diff(indptr)[ranked] * entry + indptr.itemsize
    return int(np.searchsorted(np.cumsum(sizes), room - indptr.itemsize, side="right"))
