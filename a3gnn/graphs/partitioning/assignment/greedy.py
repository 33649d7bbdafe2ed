"""The greedy assignment of blocks to parts (BGL, section 3.3.2)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.partitioning.assignment.kernels import PartCapacity, assign
from a3gnn.graphs.partitioning.block_graph import BlockGraph

BlockAffinity = Literal["blocks", "edges"]


def greedy_parts(blocks: BlockGraph, num_parts: int, affinity: BlockAffinity = "blocks") -> NDArray[np.int32]:
    """Returns the part of each block, int32, shape (num_blocks,).

    Blocks are assigned one by one, by decreasing size, ties by id, each to the part i with the highest

        (1 + |P(i) ∩ (Γ¹(B) ∪ Γ²(B))|) * (1 - |P(i)| / C) * (1 - |T(i)| / C_T)

    where |P(i)| and |T(i)| are the nodes and train nodes of part i, C and C_T their means over the parts. The
    intersection counts blocks, as in BGL ("the set of j-hop neighbor blocks"), each once. Three choices are ours: the
    added 1, by which a block without assigned neighbours goes where most room is; a part that the block would overfill
    is skipped, so that two negative factors don't make a high score; a block that would overfill every part goes where
    the excess is least. Ties go to the lower part.

    Args:
        blocks: The block graph.
        num_parts: Parts.
        affinity: "blocks" is BGL's score; "edges" counts the edges to neighbour blocks instead, one hop only.
    """
    capacity = PartCapacity(*(max(float(sizes.sum()) / num_parts, 1.0) for sizes in (blocks.sizes, blocks.train_sizes)))
    order = np.argsort(-blocks.sizes, kind="stable")
    parts: NDArray[np.int32] = assign(
        blocks.indptr,
        blocks.indices,
        blocks.weights,
        blocks.sizes,
        blocks.train_sizes,
        order,
        capacity,
        num_parts,
        affinity == "edges",
    )
    return parts
