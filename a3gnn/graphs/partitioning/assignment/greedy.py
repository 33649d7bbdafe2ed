"""The greedy assignment of blocks to parts (BGL, section 3.3.2)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.partitioning.assignment.kernels import assign
from a3gnn.graphs.partitioning.block_graph import BlockGraph

Affinity = Literal["blocks", "edges"]


def greedy_parts(blocks: BlockGraph, num_parts: int, affinity: Affinity = "blocks") -> NDArray[np.int32]:
    """Returns the part of each block, int32, shape (num_blocks,).

    Block by block, by falling size, ties to the lower id, the part i with the highest

        (1 + |P(i) ∩ (Γ¹(B) ∪ Γ²(B))|) * (1 - |P(i)| / C) * (1 - |T(i)| / C_T)

    where |P(i)| and |T(i)| are the nodes and train nodes of part i, C and C_T their means over the parts. The
    intersection counts blocks, as BGL has it ("the set of j-hop neighbor blocks"), each at its distance from B.
    Three things that the paper leaves open: the 1 sends a block without assigned neighbours where most room is; a
    part that the block would overfill is passed over, so that no two negative factors make a high score; where it
    would overfill all, it goes where that is by the least. Ties go to the lower part.

    Args:
        blocks: The block graph.
        num_parts: Parts.
        affinity: "blocks" is BGL's; "edges" counts the edges to neighbour blocks instead, and no second hop.
    """
    nodes, trains = (max(float(amount.sum()) / num_parts, 1.0) for amount in (blocks.nodes, blocks.trains))
    order = np.argsort(-blocks.nodes, kind="stable")
    parts: NDArray[np.int32] = assign(
        blocks.indptr,
        blocks.indices,
        blocks.weights,
        blocks.nodes,
        blocks.trains,
        order,
        (nodes, trains),
        num_parts,
        affinity == "edges",
    )
    return parts
