"""Mini-batches sampled before training: which nodes they need, and how often (GNNLab's presampling)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.graph import Graph
from a3gnn.graphs.hotness import hottest_first
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.seeding import derive, generator

# Seeds of the mini-batches that are counted, at most: 100 mini-batches of the default size. Guess.
_MAX_SEEDS = 100 * 1024


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

    Neighbours are sampled uniformly, over the whole graph, from random streams of `seed` that training does not use.

    Args:
        graph: The graph.
        fanouts: In-neighbours sampled per node, the seeds' hop first.
        batch_size: Seeds per mini-batch.
        seed: Seed of the random streams.
        seeds: Seeds of each mini-batch, in training's order; by default the train nodes, shuffled.
        most: Mini-batches at most; 0 samples none, None all of them.
    """
    sampler = NeighbourSampler(graph.indptr, graph.indices, fanouts, seed=derive(seed, "presample", "neighbours"))
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

    One epoch is presampled, or 100 x 1,024 seeds of a longer one: of `seeds`, every n-th mini-batch, so that a
    proximity order is sampled from all of the graph. Ties, such as nodes that none needs, are ranked by degree.
    Arguments are those of `presampled`.
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
