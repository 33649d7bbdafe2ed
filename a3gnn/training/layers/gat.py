"""Graph attention (Veličković et al., 2018), as PyG's `GATConv`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import softmax

from a3gnn.features.rows.csr import csr
from a3gnn.training.layers.activation import relu_dropout
from a3gnn.training.layers.attention.attended import attended
from a3gnn.training.layers.attention.heads import map_heads
from a3gnn.training.layers.block import LayerBlock, csr_matmul
from a3gnn.training.layers.cost import Work
from a3gnn.training.layers.dropout import Dropout
from a3gnn.training.layers.layer import Layer, linear, work_of

# Of LeakyReLU: Veličković et al., 2018, section 2.1.
_NEGATIVE_SLOPE = 0.2
# What torch takes for an edge's score, softmax and product in each head, forward and backward, in `Work`'s units.
# Guess.
_EDGE_COST = 3000
# What of that the forward pass takes. Guess, from what evaluations of two graphs take on two cores.
_FORWARD_SHARE = 0.1


class GATLayer(Layer):
    """Attention over the in-neighbours and the node itself; heads are concatenated, or averaged in the last layer.

    A self loop that the graph has counts once.
    """

    def __init__(self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float) -> None:
        super().__init__(in_channels, out_channels)
        self.edge_bytes = 64 + 40 * heads
        self.heads = heads
        self.concat = concat
        self.dropout = dropout
        width = out_channels // heads if concat else out_channels
        self.lin = Linear(in_channels, heads * width, bias=False, weight_initializer="glorot")
        self.att_src = nn.Parameter(torch.empty(1, heads, width))
        self.att_dst = nn.Parameter(torch.empty(1, heads, width))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        glorot(self.att_src)
        glorot(self.att_dst)

    @property
    def input_weights(self) -> list[Tensor]:
        """`W` of all heads; see `Layer.input_weights`."""
        return [self.lin.weight]

    def maps_first(self, work: Work) -> bool:
        """Returns True: the attention reads mapped rows."""
        return True

    def cost(self, work: Work) -> float:
        """Returns what the layer costs, in the units of `Work`; without gradients it maps first."""
        if work.trains and not work.sparse and self._attends_first(work):
            return work.aggregate_first(self.in_channels, self.lin.weight.shape[0], heads=self.heads)
        edges = _EDGE_COST * work.num_edges * self.heads * (1 if work.trains else _FORWARD_SHARE)
        return work.map_first(self.in_channels, self.lin.weight.shape[0]) + edges

    def forward(self, block: LayerBlock, x: Tensor, dropout: Dropout | None = None, seed: int = 0) -> Tensor:
        """Returns the destinations' output; see `Layer.forward`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        if block.runs_compiled(x) and self._attends_first(work_of(block, x)):
            maps = self._scorer(self.att_src), self._scorer(self.att_dst)
            sums = attended(block, x, *maps, attention=attention, before=dropout)
            weight = self.lin.weight.view(self.heads, -1, self.in_channels)
            if self.concat:
                return map_heads(sums, weight, self.bias)
            flat = sums.transpose(0, 1).flatten(1)
            return linear(flat, weight.transpose(0, 1).flatten(1) / self.heads, self.bias)
        x = x if dropout is None else relu_dropout(x, dropout)
        by_head = linear(x, self.lin.weight).float().view(block.num_src, self.heads, -1)
        score = linear(x, self._scorer(self.att_src)).float()
        return self._output(self._attend(block, by_head, score, block.destinations(x), attention)).to(x.dtype)

    def _attends_first(self, work: Work) -> bool:
        """Returns whether to sum input rows by each head's attention before they are mapped."""
        widths = self.in_channels, self.lin.weight.shape[0]
        mapping = work.map_first(*widths) + _EDGE_COST * work.num_edges * self.heads
        return work.aggregate_first(*widths, heads=self.heads) < mapping

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W x` with each head's source score beside it, shape (n_rows, heads * (width + 1))."""
        weight = self.lin.weight.view(self.heads, -1, self.in_channels)
        return linear(x, torch.cat([weight, self._scorer(self.att_src).unsqueeze(1)], dim=1).flatten(0, 1))

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        by_head = sources.view(block.num_src, self.heads, -1)
        return self._output(self._attend(block, by_head, by_head[..., -1], x, Dropout.of(0.0))[..., :-1])

    def _scorer(self, attention: Tensor) -> Tensor:
        """Returns the map from input rows to the heads' scores, float32, shape (heads, in_channels)."""
        weight = self.lin.weight.view(self.heads, -1, self.in_channels)
        scorer: Tensor = (attention.transpose(0, 1) @ weight).squeeze(1)
        return scorer

    def _attend(self, block: LayerBlock, by_head: Tensor, source: Tensor, x: Tensor, dropout: Dropout) -> Tensor:
        """Returns attention-weighted sums, float32, shape (num_dst, heads, n_columns).

        Args:
            block: The edges.
            by_head: What is summed, float32, shape (num_src, heads, n_columns).
            source: The sources' scores, float32, shape (num_src, heads).
            x: The destinations' rows of the input.
            dropout: Of the attention.
        """
        indptr, indices = _with_self_loops(block)
        counts = (indptr[1:] - indptr[:-1]).long()
        target = linear(x, self._scorer(self.att_dst)).float()
        own = target.repeat_interleave(counts, dim=0, output_size=indices.numel())
        score = functional.leaky_relu(source.index_select(0, indices) + own, _NEGATIVE_SLOPE)
        attention = softmax(score, ptr=indptr.long())
        if dropout.threshold:
            attention = attention * dropout.factors(attention)
        return _sumby_head_matrix(indptr, indices, attention, by_head)

    def _output(self, out: Tensor) -> Tensor:
        return (out.flatten(1) if self.concat else out.mean(dim=1)) + self.bias


def _with_self_loops(block: LayerBlock) -> tuple[Tensor, Tensor]:
    """Returns the block's `indptr` and `indices` with exactly one self loop per destination, which comes first."""
    indptr, indices, rows = block.indptr, block.indices, block.rows
    if bool(block.self_loops.any()):
        rows, indices = rows[~block.self_loops], indices[~block.self_loops]
        counts = torch.bincount(rows, minlength=block.num_dst)
        indptr = functional.pad(counts.cumsum(0), (1, 0)).to(indptr.dtype)
    wider = indptr + torch.arange(block.num_dst + 1, device=indptr.device, dtype=indptr.dtype)
    looped = indices.new_empty(indices.numel() + block.num_dst)
    looped.scatter_(0, wider[:-1].long(), block.dst_ids.to(indices.dtype))
    looped.scatter_(0, torch.arange(indices.numel(), device=indices.device) + rows + 1, indices)
    return wider, looped


def _sumby_head_matrix(indptr: Tensor, indices: Tensor, attention: Tensor, by_head: Tensor) -> Tensor:
    """Returns the attention-weighted sums, float32, shape (num_dst, heads, width).

    One product with a block matrix whose row h * num_dst + i is destination i under head h: messages per edge and
    head are never stored.
    """
    num_src, heads, width = by_head.shape
    num_dst = indptr.numel() - 1
    starts, columns = by_head_matrix(indptr, indices, heads, num_src)
    rows = by_head.reshape(num_src * heads, width)
    out: Tensor = _EdgeWeightedSum.apply(starts, columns, attention.t().flatten(), rows)  # type: ignore[no-untyped-call]
    return out.view(heads, num_dst, width).transpose(0, 1)


def by_head_matrix(indptr: Tensor, indices: Tensor, heads: int, num_src: int) -> tuple[Tensor, Tensor]:
    """Returns the block matrix's `indptr` and `indices`: int32 as the block's, or int64 where that is too narrow."""
    num_edges = indices.numel()
    if heads * max(num_src, num_edges) > torch.iinfo(indices.dtype).max:
        indptr, indices = indptr.long(), indices.long()
    head = torch.arange(heads, device=indices.device, dtype=indices.dtype).unsqueeze(1)
    columns = (indices * heads + head).flatten()
    starts = functional.pad((indptr[:-1] + head * num_edges).flatten(), (0, 1), value=heads * num_edges)
    return starts, columns


class _EdgeWeightedSum(torch.autograd.Function):
    """A CSR product that differentiates by its stored values, whatever their order in a row.

    Torch's own gradient by the values that a CSR tensor was made of assumes sorted and distinct columns; its gradient
    by the CSR tensor itself does not.
    """

    @staticmethod
    def forward(ctx: Any, indptr: Tensor, indices: Tensor, values: Tensor, x: Tensor) -> Tensor:
        matrix = csr(indptr, indices, values.detach(), (indptr.numel() - 1, x.shape[0]))
        if not any(ctx.needs_input_grad):
            return csr_matmul(matrix, x)
        with torch.enable_grad():
            ctx.inputs = matrix.requires_grad_(), x.detach().requires_grad_()
            ctx.out = csr_matmul(*ctx.inputs)
        return ctx.out.detach()  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, Tensor]:
        by_matrix, by_x = torch.autograd.grad(ctx.out, ctx.inputs, grad)
        ctx.out = ctx.inputs = None
        return None, None, by_matrix.values(), by_x
