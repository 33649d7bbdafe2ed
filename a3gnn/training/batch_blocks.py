"""A mini-batch's blocks as layers see them."""

from __future__ import annotations

import torch
from torch import Tensor

from a3gnn.runtime.batch import MiniBatch, TorchBlock
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.layers.kernels import count_in_edges


def blocks_of(batch: MiniBatch, *, with_degrees: bool) -> list[LayerBlock]:
    """Returns the blocks of `batch`, input layer first.

    Args:
        batch: The mini-batch.
        with_degrees: Whether they carry the nodes' sampled in-degrees: those of the whole sampled graph, as PyG takes
            them from a mini-batch's `edge_index`; nodes of the last hop have none.
    """
    parts = batch.blocks
    blocks = [LayerBlock(part.indptr, part.indices, part.num_src, slice(0, part.num_dst)) for part in parts]
    if not with_degrees:
        return blocks
    degrees = _in_degrees(parts[0])
    return [LayerBlock(b.indptr, b.indices, b.num_src, b.dst, degrees[: b.num_src]) for b in blocks]


def _in_degrees(part: TorchBlock) -> Tensor:
    """Returns the sampled in-neighbours of each source other than itself, float32, shape (num_src,)."""
    if part.indptr.device.type == "cpu":
        degrees = torch.empty(part.num_src)
        count_in_edges(part.indptr.numpy(), part.indices.numpy(), degrees.numpy())
        return degrees
    block = LayerBlock(part.indptr, part.indices, part.num_src, slice(0, part.num_dst))
    degrees = torch.zeros(part.num_src, device=part.indptr.device)
    degrees[: part.num_dst] = part.indptr.diff().to(degrees.dtype)
    return degrees.index_add_(0, block.rows, block.self_loops.to(degrees.dtype), alpha=-1)
