"""DistDGL's partitioner: METIS, balanced in nodes and in train nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.algorithms.partitioning.balance import balanced
from a3gnn.algorithms.partitioning.libmetis import has_two_constraints, two_constraint_parts
from a3gnn.algorithms.partitioning.number import check_parts
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partitioning.metis import metis_parts, out_of_memory, symmetrised

# Nodes per part at least, below which METIS may get a graph without nodes to bisect. Guess.
_LEAST_PER_PART = 8


def distdgl_partition(graph: Graph, parts: int, seed: int = 0) -> NDArray[np.int32]:
    """Returns the part of each node, int32 in [0, parts), shape (num_nodes,), cutting few edges.

    No part has more than 1.05 times the mean of the nodes, nor of the train nodes; where that is not even the mean
    rounded up (below 20 per part), no more than that. Three train nodes over two parts are two and one, and with fewer
    train nodes than parts some parts have none: nothing more even is possible.

    METIS gets two weights per node: 1, and whether it is a train node (DistDGL, section 5.3: "multi-constraint"). It
    may miss a bound, and a pymetis that hides its library's symbols balances nodes alone; then nodes move at least cost
    in cut edges until both hold (`balanced`). Edges count alike in both directions, self loops don't. Parts of fewer
    than 8 nodes, too small for METIS, start as consecutive nodes.

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
        if graph.num_nodes < _LEAST_PER_PART * parts:
            first = (np.arange(graph.num_nodes) * parts // graph.num_nodes).astype(np.int32)
        elif has_two_constraints() and is_train.any():
            first = two_constraint_parts(both_ways, is_train, parts, seed)
        else:
            first = metis_parts(graph, parts, seed)
        return balanced(both_ways, first, is_train, parts)
    except MemoryError as error:
        raise out_of_memory(graph, error, "algorithm 'pagraph' needs some bytes per node") from error
