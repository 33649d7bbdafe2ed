"""DistDGL's partitioner: METIS, balanced in nodes and in train nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.algorithms.partitioning.balance import balanced
from a3gnn.algorithms.partitioning.libmetis import has_two_constraints, two_constraint_parts
from a3gnn.algorithms.partitioning.number import check_parts
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partitioning.kernels import cut_edges
from a3gnn.graphs.partitioning.metis import cut_by_metis, out_of_memory, symmetrised

# Nodes per part at least, below which METIS may get a graph without nodes to bisect. Guess.
_LEAST_PER_PART = 8


def distdgl_partition(graph: Graph, parts: int, seed: int = 0) -> NDArray[np.int32]:
    """Returns the part of each node, int32 in [0, parts), shape (num_nodes,), cutting few edges.

    No part has more than 1.05 times the mean of the nodes, nor of the train nodes; where that is not even the mean
    rounded up (below 20 per part), no more than that. Three train nodes over two parts are two and one, and with fewer
    train nodes than parts some parts have none: nothing more even is possible.

    METIS cuts twice, once with two weights per node, 1 and whether it is a train node (DistDGL's "multi-constraint"),
    and once with none, and may miss bounds. From each result nodes move at least cost in cut edges until both hold
    (`balanced`), and that with fewer cut edges is returned. A pymetis that hides its library's symbols cuts once,
    without weights. Edges count alike in both directions, self loops don't. Parts of fewer than 8 nodes, too small for
    METIS, start as consecutive nodes.

    Memory is METIS's: the edges in RAM several times over. Deterministic given graph, parts, seed and METIS's version.

    Args:
        graph: Any graph.
        parts: From 1 to the number of nodes.
        seed: METIS's.

    Raises:
        UsageError: `parts` is out of range.
        MemoryLimitError: There is too little memory for METIS.
    """
    check_parts(graph, parts)
    if parts == 1:
        return np.zeros(graph.num_nodes, dtype=np.int32)
    is_train = np.zeros(graph.num_nodes, dtype=np.bool_)
    is_train[graph.train_ids] = True
    try:
        both_ways = symmetrised(graph)
        found = [balanced(both_ways, cut, is_train, parts) for cut in _cuts(both_ways, is_train, parts, seed)]
    except (MemoryError, RuntimeError) as error:  # given a valid graph, memory is all that METIS raises for
        raise out_of_memory(graph, error, "algorithm 'pagraph' needs some bytes per node") from error
    return min(found, key=lambda one: cut_edges(graph.indptr, graph.indices, one))


def _cuts(both_ways: csr_array, is_train: NDArray[np.bool_], parts: int, seed: int) -> Iterator[NDArray[np.int32]]:
    num_nodes = len(is_train)
    if num_nodes < _LEAST_PER_PART * parts:
        yield (np.arange(num_nodes) * parts // num_nodes).astype(np.int32)
        return
    if has_two_constraints() and is_train.any():
        yield two_constraint_parts(both_ways, is_train, parts, seed)
    yield cut_by_metis(both_ways, parts, seed)
