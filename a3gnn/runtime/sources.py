"""`open_sources`: where a pipeline's mini-batches come from: the features, and the sampler of ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.opening import open_features
from a3gnn.features.stores.store import FeatureStore
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.sampler import PartedSampler, warm_up
from a3gnn.parts.store import open_store
from a3gnn.runtime.samplers import EdgeSampling, open_sampler
from a3gnn.runtime.stages import Sampler


def open_sources(
    graph: Graph,
    adjacency: tuple[NDArray[np.int64], NDArray[np.int32]],
    fanouts: Sequence[int],
    config: TrainConfig,
    seed: int,
    device: str,
    parts: NDArray[np.int32] | None,
    seeds: Iterable[NDArray[np.int32]],
    table: DenseFeatures | SparseFeatures | None,
    sampling: EdgeSampling | None,
) -> tuple[FeatureStore, Sampler]:
    """Returns the store of features and the sampler that `config` asks for; of a graph by parts, its servers'.

    Args:
        graph: The graph.
        adjacency: Its in-neighbours as CSR, indptr and indices, within `parts`.
        fanouts: In-neighbours sampled per node, the seeds' hop first; -1 takes all.
        config: As `open_features` and `open_sampler` take it; of a graph by parts, `check_over_parts` has passed.
        seed: Decides the random numbers.
        device: Where mini-batches are trained.
        parts: Each node's part in training part by part, int32, shape (num_nodes,); None is one part.
        seeds: Of each mini-batch of the first epoch, for cache policies that sample.
        table: As `open_features` takes it.
        sampling: As `open_sampler` takes it.

    Raises:
        UsageError: As of those; or edges are to be sampled in a way that servers don't.
        GraphServerError: A graph server can't be reached, or refuses.
    """
    if isinstance(graph, PartedGraph):
        if sampling is not None:
            raise UsageError(
                "over parts, in-neighbours are drawn of distinct seeds, each once and in one tree; leave out replace, "
                "disjoint, an induced subgraph, seeds that are repeated and an order of your own"
            )
        warm_up()
        return open_store(graph, config), PartedSampler(graph, fanouts, seed=seed)
    features = open_features(graph, config, parts, device, fanouts=fanouts, seed=seed, seeds=seeds, table=table)
    return features, open_sampler(adjacency, fanouts, config, seed, features.cached, parts, sampling)
