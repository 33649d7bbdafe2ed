"""A mini-batch's blocks as layers see them."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from a3gnn.models.layers.block import LayerBlock, WholeBlock
from a3gnn.models.layers.layer_kernels import count_in_edges
from a3gnn.pipeline.batch import MiniBatch, TorchBlock
from a3gnn.sampling.subgraph import Subgraph


def blocks_of(batch: MiniBatch, *, with_degrees: bool, whole: Tensor | None = None) -> list[LayerBlock]:
    """Returns the blocks of `batch`, input layer first where its hop was sampled.

    Args:
        batch: The mini-batch.
        with_degrees: Whether they carry the nodes' sampled in-degrees: those of the whole sampled graph, as PyG takes
            them from a mini-batch's `edge_index`; nodes of the last hop have none.
        whole: Where `x` are rows of a table of whole in-neighbourhoods, each node's in-neighbours other than itself,
            float32, shape (num_nodes of the graph,): the in-degrees of nodes of the last hop, as if one more hop had
            been sampled in full.

    Those of a share of a mini-batch know the whole's: degrees are the whole's, and so is what is dropped.
    """
    share = batch.subgraph.share
    if share is None:
        return _blocks(batch.blocks, batch.subgraph, with_degrees, whole)
    of_whole = (share.whole.block(layer) for layer in range(share.whole.num_layers))
    parts = [TorchBlock(torch.from_numpy(b.indptr), torch.from_numpy(b.indices), *b[2:]) for b in of_whole]
    places = torch.from_numpy(share.places).long()
    own = _blocks(batch.blocks, batch.subgraph, False, None)
    pairs = zip(own, _blocks(parts, share.whole, with_degrees, whole), strict=True)
    return [_placed(block, of_all, places[: block.num_src]) for block, of_all in pairs]


def input_block(indptr: Tensor, indices: Tensor, num_src: int, *, with_degrees: bool) -> LayerBlock:
    """Returns the input layer's block of a whole mini-batch from its CSR, as `blocks_of` gives it.

    Args:
        indptr: int32, shape (num_dst + 1,); destinations are the first of the sources.
        indices: int32, shape (num_edges,).
        num_src: Sources.
        with_degrees: As for `blocks_of`.
    """
    part = TorchBlock(indptr, indices, num_src, indptr.numel() - 1)
    return LayerBlock(indptr, indices, num_src, slice(0, part.num_dst), _in_degrees(part) if with_degrees else None)


def _blocks(parts: list[TorchBlock], subgraph: Subgraph, with_degrees: bool, whole: Tensor | None) -> list[LayerBlock]:
    blocks = [LayerBlock(part.indptr, part.indices, part.num_src, slice(0, part.num_dst)) for part in parts]
    if not with_degrees or not blocks:
        return blocks
    degrees = _in_degrees(parts[0])
    if whole is not None:
        last = subgraph.n_id[parts[0].num_dst :]
        degrees[parts[0].num_dst :] = whole[torch.from_numpy(last)].to(degrees.device)
    return [LayerBlock(b.indptr, b.indices, b.num_src, b.dst, degrees[: b.num_src]) for b in blocks]


def _placed(block: LayerBlock, whole: LayerBlock, places: Tensor) -> LayerBlock:
    """Returns `block` as part of the block `whole`, whose nodes' degrees its own have."""
    degrees, device = whole.in_degrees, block.indptr.device
    if degrees is not None:
        degrees = degrees.index_select(0, places).to(device)
    return dataclasses.replace(block, in_degrees=degrees, whole=WholeBlock(whole, places.to(device)))


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
