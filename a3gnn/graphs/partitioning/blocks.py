"""BGL's partitioner (section 3.3): blocks by breadth-first search, assigned greedily, in memory linear in the nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.partitioning.assignment.greedy import Affinity, greedy_parts
from a3gnn.graphs.partitioning.block_graph import BlockGraph
from a3gnn.graphs.partitioning.coarsen import coarsen


def block_parts(graph: GraphArrays, num_parts: int, seed: int, affinity: Affinity = "blocks") -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,).

    Of a directed graph, blocks grow from a node to its in-neighbours, as sampling does, and blocks are neighbours
    whichever way an edge between them runs.

    Args:
        graph: Any graph.
        num_parts: Parts, from 1 to the number of nodes.
        seed: Decides where blocks begin and which scraps merge.
        affinity: What ties a block to a part; see `greedy_parts`.
    """
    block, num_blocks = coarsen(graph, num_parts, seed)
    of_block = greedy_parts(BlockGraph.of(graph, block, num_blocks), num_parts, affinity)
    return of_block[block]
