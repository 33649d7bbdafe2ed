"""A mini-batch's blocks in the form that layers read."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from a3gnn.kernels.edges import count_in_edges
from a3gnn.models.layers.block import LayerBlock, WholeBlock
from a3gnn.pipeline.batch import MiniBatch, TorchBlock
from a3gnn.sampling.subgraph import Subgraph


def blocks_of(batch: MiniBatch, *, with_degrees: bool, whole: Tensor | None = None) -> list[LayerBlock]:
    """Returns the blocks of `batch`, in order of layers; the input layer has a block if its hop was sampled.

    If `batch` is a share of a mini-batch, its blocks refer to the whole mini-batch's: they have its degrees, and
    dropout drops the same entries.

    Args:
        batch: The mini-batch.
        with_degrees: Whether blocks have in-degrees. They count the whole sampled graph, as PyG does with a
            mini-batch's `edge_index`; nodes of the last hop have degree 0.
        whole: If `x` holds rows of a table over full in-neighborhoods, each node's number of in-neighbors other than
            itself, float32, shape (num_nodes of the graph,). Nodes of the last hop get these in-degrees, as if one more
            hop had been sampled in full.
    """
    share = batch.subgraph.share
    edges = next(iter(batch.edges.values()), None)  # a built-in model reads one
    if share is None:
        return _blocks(batch.blocks, batch.subgraph, with_degrees, whole, edges)
    of_whole = (share.whole.block(layer) for layer in range(share.whole.num_layers))
    parts = [TorchBlock(torch.from_numpy(b.indptr), torch.from_numpy(b.indices), *b[2:]) for b in of_whole]
    places = torch.from_numpy(share.places).long()
    own = _blocks(batch.blocks, batch.subgraph, False, None, edges)
    of_whole_edges = next(iter(batch.whole_edges.values()), None)
    pairs = zip(own, _blocks(parts, share.whole, with_degrees, whole, of_whole_edges), strict=True)
    return [_placed(block, of_all, places[: block.num_src]) for block, of_all in pairs]


def input_block(indptr: Tensor, indices: Tensor, num_src: int, *, with_degrees: bool) -> LayerBlock:
    """Returns the input layer's block of a whole mini-batch from its CSR, as `blocks_of` does.

    Args:
        indptr: int32, shape (num_dst + 1,); destinations are the first of the sources.
        indices: int32, shape (num_edges,).
        num_src: Number of sources.
        with_degrees: See `blocks_of`.
    """
    part = TorchBlock(indptr, indices, num_src, indptr.numel() - 1)
    return LayerBlock(indptr, indices, num_src, slice(0, part.num_dst), _in_degrees(part) if with_degrees else None)


def _blocks(
    parts: list[TorchBlock], subgraph: Subgraph, with_degrees: bool, whole: Tensor | None, edges: Tensor | None
) -> list[LayerBlock]:
    blocks = []
    for indptr, indices, num_src, num_dst in parts:
        values = None if edges is None else edges[: indices.numel()]
        blocks.append(LayerBlock(indptr, indices, num_src, slice(0, num_dst), edges=values))
    if not with_degrees or not blocks:
        return blocks
    degrees = _in_degrees(parts[0]) if edges is None else _weighted(blocks[0])
    if whole is not None:
        last = subgraph.n_id[parts[0].num_dst :]
        degrees[parts[0].num_dst :] = whole[torch.from_numpy(last)].to(degrees.device)
    return [dataclasses.replace(block, in_degrees=degrees[: block.num_src]) for block in blocks]


def _placed(block: LayerBlock, whole: LayerBlock, places: Tensor) -> LayerBlock:
    """Returns `block` as part of the block `whole`, with the degrees from `whole`."""
    degrees, device = whole.in_degrees, block.indptr.device
    if degrees is not None:
        degrees = degrees.index_select(0, places).to(device)
    return dataclasses.replace(block, in_degrees=degrees, whole=WholeBlock(whole, places.to(device)))


def _weighted(block: LayerBlock) -> Tensor:
    """Returns each source's weighted degree, float32, shape (num_src,): 1 for nodes of the last hop."""
    degrees = block.weighted_degrees
    return torch.cat([degrees, degrees.new_ones(block.num_src - block.num_dst)])


def _in_degrees(part: TorchBlock) -> Tensor:
    """Returns each source's number of sampled in-neighbors other than itself, float32, shape (num_src,)."""
    if part.indptr.device.type == "cpu":
        degrees = torch.empty(part.num_src)
        count_in_edges(part.indptr.numpy(), part.indices.numpy(), degrees.numpy())
        return degrees
    block = LayerBlock(part.indptr, part.indices, part.num_src, slice(0, part.num_dst))
    degrees = torch.zeros(part.num_src, device=part.indptr.device)
    degrees[: part.num_dst] = part.indptr.diff().to(degrees.dtype)
    return degrees.index_add_(0, block.rows, block.self_loops.to(degrees.dtype), alpha=-1)
