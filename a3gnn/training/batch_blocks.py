"""A mini-batch's blocks as layers see them."""

from __future__ import annotations

import torch

from a3gnn.runtime.batch import MiniBatch
from a3gnn.training.layers.block import Block


def blocks_of(batch: MiniBatch, *, with_degrees: bool) -> list[Block]:
    """Returns the blocks of `batch`, input layer first.

    Args:
        batch: The mini-batch.
        with_degrees: Whether they carry the nodes' sampled in-degrees: those of the whole sampled graph, as PyG takes
            them from a mini-batch's `edge_index`; nodes of the last hop have none.
    """
    parts = batch.blocks
    blocks = [Block(part.indptr, part.indices, part.num_src, slice(0, part.num_dst)) for part in parts]
    if not with_degrees:
        return blocks
    degrees = torch.zeros(blocks[0].num_src, device=batch.indptr.device)
    degrees[: blocks[0].num_dst] = (batch.indptr[1:] - batch.indptr[:-1]).to(degrees.dtype)
    loops = blocks[0].rows[blocks[0].self_loops]
    degrees.index_add_(0, loops, degrees.new_ones(loops.numel()), alpha=-1)
    return [Block(b.indptr, b.indices, b.num_src, b.dst, degrees[: b.num_src]) for b in blocks]
