"""Converts a sampled neighborhood's edges to the two forms that PyG's convolutions take: edge index and sparse CSR."""

from __future__ import annotations

import torch
from torch import Tensor

from a3gnn.features.rows.tensors import csr
from a3gnn.sampling.edge_order import write_edge_index
from a3gnn.sampling.subgraph import Subgraph


def edge_index(indptr: Tensor, indices: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    """Returns sources and targets as places in `n_id`, shape (2, num_edges), sorted by target.

    Args:
        indptr: CSR pointers of a `Subgraph` or graph, as an integer tensor.
        indices: CSR indices, on the same device.
        dtype: Type of the result.
    """
    edges = indices.numel()
    found = torch.empty((2, edges), dtype=dtype, device=indptr.device)
    if indptr.device.type == "cpu":  # one pass, where torch's operators are five
        write_edge_index(indptr.numpy(), indices.numpy(), found.numpy())
        return found
    rows = torch.arange(len(indptr) - 1, device=indptr.device)
    found[0] = indices
    found[1] = rows.repeat_interleave(indptr.diff().long(), output_size=edges)
    return found


def adjacencies(subgraph: Subgraph, indptr: Tensor, indices: Tensor) -> list[Tensor]:
    """Returns each sampled layer's adjacency, input layer first: sparse CSR of ones, shape (num_dst, num_src).

    Indices are int64, because gather, scatter and softmax in PyG's convolutions accept no other type.

    Args:
        subgraph: Decides the layers and their sizes.
        indptr: `subgraph.indptr` as a tensor.
        indices: `subgraph.indices` as a tensor, on the same device.
    """
    indptr, indices = indptr.long(), indices.long()
    ones = torch.ones(len(indices), device=indices.device)
    found = []
    for layer in range(subgraph.num_layers):
        block = subgraph.block(layer)
        edges = len(block.indices)
        size = (block.num_dst, block.num_src)
        found.append(csr(indptr[: block.num_dst + 1], indices[:edges], ones[:edges], size))
    return found
