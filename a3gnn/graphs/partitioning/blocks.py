"""BGL's partitioner (section 3.3): blocks by breadth-first search, assigned greedily, in memory linear in the nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.partitioning.assignment.greedy import BlockAffinity, greedy_parts
from a3gnn.graphs.partitioning.block_graph import BlockGraph
from a3gnn.graphs.partitioning.coarsen import coarsen


def block_parts(graph: GraphArrays, num_parts: int, seed: int, affinity: BlockAffinity = "blocks") -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,).

    In a directed graph, blocks grow from a node to its in-neighbours, as sampling does, and two blocks are neighbours
    whatever the direction of an edge between them.

    Args:
        graph: Any graph.
        num_parts: Parts, from 1 to the number of nodes.
        seed: Decides the sources of blocks and the random merges.
        affinity: How the neighbourhood of a block and a part is counted; see `greedy_parts`.
    """
    coarse = coarsen(graph, num_parts, seed)
    part_of_block = greedy_parts(BlockGraph.of(graph, coarse.block_of, coarse.num_blocks), num_parts, affinity)
    return part_of_block[coarse.block_of]
