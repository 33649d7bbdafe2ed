"""A layer's view of a graph: destinations, sources and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from a3gnn.errors import UsageError
from a3gnn.kernels.edges import by_source
from a3gnn.kernels.sums import Csr
from a3gnn.storage.csr_tensor import csr


class WholeBlock(NamedTuple):
    """The whole mini-batch's block of a layer, for a share's block.

    Attributes:
        block: The whole block, on the host.
        places: The place of each of the share's sources in the whole block, int64, shape (num_src,), on the share's
            device.
    """

    block: LayerBlock
    places: Tensor


@dataclass(frozen=True)
class LayerBlock:
    """A bipartite CSR block. In-neighbors of destination i are `indices[indptr[i]:indptr[i + 1]]`.

    Attributes:
        indptr: int32 or int64, shape (num_dst + 1,).
        indices: Positions among the sources, same dtype, shape (num_edges,).
        dst: The destinations' positions among the sources: a slice, or int64 of shape (num_dst,).
        in_degrees: Each source's in-degree in the whole (sampled) graph, without self loops, float32,
            shape (num_src,); only GCN reads it. With weights it is the sum of `weighted_degrees`.
        whole: The whole mini-batch's block, if this is a share's; None otherwise.
        edges: Values of the edges that the layer reads, float32: weights for GCN, shape (num_edges,), or attributes for
            attention, shape (num_edges, columns). None without any.
    """

    indptr: Tensor
    indices: Tensor
    num_src: int
    dst: slice | Tensor
    in_degrees: Tensor | None = None
    whole: WholeBlock | None = None
    edges: Tensor | None = None

    @property
    def num_dst(self) -> int:
        """Number of destinations."""
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.indices.numel()

    @cached_property
    def csr(self) -> Csr:
        """The edges by destination, on the CPU."""
        return self.indptr.numpy(), self.indices.numpy(), np.empty(0, dtype=np.int32)

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Each edge's source and destination, int64."""
        return self.indices.long(), self.rows

    @cached_property
    def rows(self) -> Tensor:
        """The destination of each edge, int64, shape (num_edges,)."""
        counts = (self.indptr[1:] - self.indptr[:-1]).long()
        return torch.arange(self.num_dst, device=counts.device).repeat_interleave(
            counts, output_size=self.indices.numel()
        )

    @cached_property
    def dst_ids(self) -> Tensor:
        """The destinations' positions among the sources, int64, shape (num_dst,)."""
        if isinstance(self.dst, slice):
            return torch.arange(self.dst.start or 0, self.dst.stop, device=self.indptr.device)
        return self.dst

    @cached_property
    def self_loops(self) -> Tensor:
        """Whether an edge joins a node to itself, bool, shape (num_edges,)."""
        return self.indices == self.dst_ids.index_select(0, self.rows).to(self.indices.dtype)

    @cached_property
    def looped(self) -> LayerBlock:
        """The block with exactly one self loop per destination, which comes first.

        Its attributes are the mean of the destination's other edges, or zeros without any, as in PyG.
        """
        indptr, indices, rows, edges = self.indptr, self.indices, self.rows, self.edges
        if bool(self.self_loops.any()):
            rows, indices = rows[~self.self_loops], indices[~self.self_loops]
            edges = None if edges is None else edges[~self.self_loops]
            counts = torch.bincount(rows, minlength=self.num_dst)
            indptr = functional.pad(counts.cumsum(0), (1, 0)).to(indptr.dtype)
        wider = indptr + torch.arange(self.num_dst + 1, device=indptr.device, dtype=indptr.dtype)
        looped = indices.new_empty(indices.numel() + self.num_dst)
        looped.scatter_(0, wider[:-1].long(), self.dst_ids.to(indices.dtype))
        places = torch.arange(indices.numel(), device=indices.device) + rows + 1
        looped.scatter_(0, places, indices)
        if edges is not None:
            means = edges.new_zeros(self.num_dst, edges.shape[1]).index_add_(0, rows, edges)
            means /= (indptr.diff().clamp(min=1)).unsqueeze(1)
            of_edges = edges.new_empty(looped.numel(), edges.shape[1])
            edges = of_edges.index_copy_(0, wider[:-1].long(), means).index_copy_(0, places, edges)
        whole = None if self.whole is None else WholeBlock(self.whole.block.looped, self.whole.places)
        return LayerBlock(wider, looped, self.num_src, self.dst, whole=whole, edges=edges)

    def attributes(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the edges' attributes, in the dtype of `weight`, and `weight`, which maps them.

        Raises:
            UsageError: There are none.
        """
        if self.edges is None:
            raise UsageError(f"a model with edge_dim {weight.shape[1]} needs edge_attr, got mini-batches without it")
        return self.edges.to(weight.dtype), weight

    @cached_property
    def loop_weights(self) -> Tensor:
        """The weight of each destination's self loop, 1 if it has none, float32, shape (num_dst,)."""
        assert self.edges is not None
        loops = self.edges.new_ones(self.num_dst)
        loops[self.rows[self.self_loops]] = self.edges[self.self_loops]
        return loops

    @property
    def weighted_degrees(self) -> Tensor:
        """The sum of the weights of each destination's edges and its self loop, float32, shape (num_dst,)."""
        assert self.edges is not None
        others = self.edges.masked_fill(self.self_loops, 0.0)
        return torch.zeros_like(self.loop_weights).index_add_(0, self.rows, others) + self.loop_weights

    @cached_property
    def symmetric_weights(self) -> tuple[Tensor, Tensor]:
        """GCN's factors of edges and of destinations' own rows, float32, shapes (num_edges,) and (num_dst,).

        They are w / sqrt(d_source d_destination), where d counts the node itself and w is the edge's weight, by default
        1. An edge from a node to itself has weight 0, because the own row represents it. A node of degree 0 has zeros.
        """
        assert self.in_degrees is not None
        scale = (self.in_degrees + 1).rsqrt()
        if self.edges is not None:
            scale = self.in_degrees.rsqrt().masked_fill_(self.in_degrees == 0, 0.0)
        own = scale.index_select(0, self.dst_ids)
        weights = scale.index_select(0, self.indices) * own.index_select(0, self.rows)
        if self.edges is not None:
            weights, own = weights * self.edges, own * self.loop_weights.sqrt()
        return weights.masked_fill_(self.self_loops, 0.0), own.square()

    @cached_property
    def by_source(self) -> Csr:
        """The edges sorted by source, on the CPU; their slots are their places in `indices`."""
        starts = np.empty(self.num_src + 1, dtype=np.int32)
        targets, edges = (np.empty(self.indices.numel(), dtype=np.int32) for _ in range(2))
        by_source(self.indptr.numpy(), self.indices.numpy(), starts, targets, edges)
        return starts, targets, edges

    def runs_compiled(self, x: Tensor) -> bool:
        """Returns whether the compiled kernels can read `x` and the block: dense, on the CPU, destinations first."""
        first = isinstance(self.dst, slice) and not self.dst.start
        readable = x.dtype in (torch.float32, torch.bfloat16)
        return first and x.device.type == "cpu" and x.layout is torch.strided and readable

    @cached_property
    def shares(self) -> Tensor:
        """Each edge's weight in a mean, 1 / the destination's number of edges, float32, shape (num_edges,)."""
        if self.indptr.is_cuda:
            counts = self.indptr.diff()
            return (1 / counts).repeat_interleave(counts, output_size=self.indices.numel())
        numbers = np.diff(self.indptr.numpy())
        return torch.from_numpy(np.repeat(np.float32(1) / np.maximum(numbers, 1).astype(np.float32), numbers))

    def destinations(self, x: Tensor) -> Tensor:
        """Returns the destinations' rows of `x` (num_src, ...), dense or sparse CSR."""
        if x.layout is torch.sparse_csr:
            return first_rows(x, self.num_dst)
        return x[self.dst]


def csr_matmul(matrix: Tensor, x: Tensor) -> Tensor:
    """Returns `matrix @ x` for a sparse CSR `matrix`.

    On the CPU it uses torch's reducing kernel. CUDA has no such kernel, so PyG picks one there.
    """
    if not x.is_cuda:
        product: Tensor = torch.sparse.mm(matrix, x.contiguous(), "sum")
        return product
    from torch_geometric.utils import spmm

    on_device: Tensor = spmm(matrix, x, "sum")
    return on_device


def first_rows(x: Tensor, count: int) -> Tensor:
    """Returns the first `count` rows of a sparse CSR `x`, without copying."""
    indptr = x.crow_indices()[: count + 1]
    stored = int(indptr[-1])
    return csr(indptr, x.col_indices()[:stored], x.values()[:stored], (count, x.shape[1]))
