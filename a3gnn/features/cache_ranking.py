"""Ranks nodes for a static cache: by degree, expected access or presampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import STATIC_POLICIES, CachePolicy
from a3gnn.errors import UsageError, unknown_name
from a3gnn.features.cache_kernels import log_not_sampled
from a3gnn.features.stored_rows import StoredRows, rows_of
from a3gnn.graphs.describe import hottest_first
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import Sampler
from a3gnn.seeding import derive, generator
from a3gnn.storage.compiled import readonly

# Most seeds of the mini-batches that are counted: 100 mini-batches of the default size. Guess.
_MAX_SEEDS = 100 * 1024


def cached_nodes(
    graph: Graph,
    cache_bytes: int,
    policy: CachePolicy = "degree",
    *,
    fanouts: Sequence[int] = (25, 10),
    batch_size: int = 1024,
    seed: int = 0,
    seeds: Iterable[NDArray[np.int32]] | None = None,
    rows: StoredRows | None = None,
) -> NDArray[np.int32]:
    """Returns the hottest nodes whose rows fit in `cache_bytes`, int32, sorted.

    The map from node to cached row, an int32 per node, counts too: a cache that can't hold the map holds nothing.

    Args:
        graph: In RAM or on disk.
        cache_bytes: Most bytes of the cache, map included.
        policy: A static one: degree (how often a node is an in-neighbor; PaGraph), access (the probability that a
            mini-batch needs it, `expected_access`) or presample (how many presampled mini-batches need it,
            `most_needed_first`; GNNLab).
        fanouts: For access and presample: in-neighbors sampled per node, the seeds' hop first.
        batch_size: For access and presample: seeds per mini-batch.
        seed: For presample: seed of the random streams.
        seeds: For presample: seeds of each mini-batch, in training's order; by default the train nodes, shuffled.
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
        ranked = hottest_first(graph)
    elif policy == "access":
        ranked = np.argsort(-expected_access(graph, fanouts, batch_size), kind="stable").astype(np.int32)
    else:
        ranked = most_needed_first(graph, fanouts, batch_size, seed, seeds=seeds)
    return that_fit(ranked, rows, cache_bytes, graph.num_nodes)


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


def presampled(
    graph: Graph,
    fanouts: Sequence[int],
    batch_size: int,
    seed: int,
    *,
    seeds: Iterable[NDArray[np.int32]] | None = None,
    most: int | None = None,
) -> Iterator[NDArray[np.int32]]:
    """Yields the nodes that each mini-batch of an epoch needs, int32, distinct.

    Neighbors are sampled uniformly, over the whole graph, from random streams of `seed` that training does not use.

    Args:
        graph: In RAM or on disk.
        fanouts: In-neighbors sampled per node, the seeds' hop first.
        batch_size: Seeds per mini-batch.
        seed: Seed of the random streams.
        seeds: Seeds of each mini-batch, in training's order; by default the train nodes, shuffled.
        most: Largest number of mini-batches; 0 samples none, None all of them.
    """
    sampler = Sampler(graph.edges, fanouts, seed=derive(seed, "presample", "neighbours"))
    if seeds is None:
        order = generator(seed, "presample", "seeds").permutation(graph.train_ids)
        seeds = (order[start : start + batch_size] for start in range(0, len(order), batch_size))
    for batch, chosen in enumerate(islice(seeds, most)):
        yield sampler.sample(chosen, 0, batch).n_id


def most_needed_first(
    graph: Graph,
    fanouts: Sequence[int],
    batch_size: int,
    seed: int,
    *,
    seeds: Iterable[NDArray[np.int32]] | None = None,
) -> NDArray[np.int32]:
    """Returns all nodes by falling number of presampled mini-batches that need them, int32, shape (num_nodes,).

    One epoch is presampled, or 100 x 1,024 seeds of a longer one. From `seeds`, every n-th mini-batch is taken, so a
    proximity order is sampled over the whole graph. Ties, such as nodes that no mini-batch needs, are ranked by degree.
    The arguments are the same as for `presampled`.
    """
    most = max(1, _MAX_SEEDS // batch_size)
    if seeds is not None:
        seeds = list(seeds)
        seeds = seeds[:: max(1, -(-len(seeds) // most))]
    needed = np.zeros(graph.num_nodes, dtype=np.int32)
    for ids in presampled(graph, fanouts, batch_size, seed, seeds=seeds, most=most):
        needed[ids] += 1
    ranked = hottest_first(graph)
    return ranked[np.argsort(-needed[ranked], kind="stable")]
