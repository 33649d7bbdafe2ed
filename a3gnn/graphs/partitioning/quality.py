"""`partition_quality`: edge cut, sampling locality and balance of parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.partitioning.kernels import cut_edges
from a3gnn.seeding import generator

# Train nodes sampled, and in-neighbours per node and hop. Guesses: enough samples for two digits.
_SEEDS = 512
_FANOUTS = (10, 10)


@dataclass(frozen=True, slots=True)
class PartitionQuality:
    """Measures of parts.

    Attributes:
        edge_cut: Share of the edges between different parts.
        locality: Share of the neighbours sampled within two hops of train nodes that lie in the train node's part.
        node_imbalance: Nodes of the largest part over the mean; 1 is even.
        train_imbalance: The most train nodes of a part over the mean; 1 is even.
    """

    edge_cut: float
    locality: float
    node_imbalance: float
    train_imbalance: float


def partition_quality(graph: GraphArrays, parts: NDArray[np.int32], seed: int = 0) -> PartitionQuality:
    """Returns the quality of `parts`, int32, shape (num_nodes,).

    Locality is estimated from 512 train nodes, with 10 in-neighbours per node and hop, drawn with replacement.

    Args:
        graph: Any graph.
        parts: Part of each node; parts from 0 to the highest count, empty ones too.
        seed: Decides the sample that locality is estimated from.
    """
    num_parts = int(parts.max()) + 1
    return PartitionQuality(
        edge_cut=cut_edges(graph.indptr, graph.indices, parts) / max(graph.num_edges, 1),
        locality=_locality(graph, parts, seed),
        node_imbalance=_imbalance(parts, num_parts),
        train_imbalance=_imbalance(parts[graph.train_ids], num_parts),
    )


def _imbalance(parts: NDArray[np.int32], num_parts: int) -> float:
    """Returns the largest part over the mean, or 1 without nodes."""
    return float(np.bincount(parts).max() * num_parts / len(parts)) if len(parts) else 1.0


def _locality(graph: GraphArrays, parts: NDArray[np.int32], seed: int) -> float:
    rng = generator(seed, "partition quality")
    frontier = rng.choice(graph.train_ids, min(_SEEDS, len(graph.train_ids)), replace=False)
    home = parts[frontier]
    near, drawn = 0, 0
    for fanout in _FANOUTS:
        starts = graph.indptr[frontier]
        degrees = graph.indptr[frontier + 1] - starts
        fanned = np.repeat(np.flatnonzero(degrees), fanout)
        offsets = (rng.random(len(fanned)) * degrees[fanned]).astype(np.int64)
        frontier, home = graph.indices[starts[fanned] + offsets], home[fanned]
        near += int(np.count_nonzero(parts[frontier] == home))
        drawn += len(frontier)
    return near / drawn if drawn else 1.0
