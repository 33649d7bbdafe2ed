"""`EdgeAttention`: attention whose scores depend jointly on the mapped rows of both ends of an edge.

Its layers are GATv2 (Brody et al., 2022) as PyG's `GATv2Conv`, and the graph transformer (Shi et al., 2021, section
3.1) as `TransformerConv`. With `edge_dim`, both read the attributes of edges.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import softmax

from a3gnn.kernels.gat import NEGATIVE_SLOPE
from a3gnn.models.layers.activation import Dropout, relu_dropout
from a3gnn.models.layers.attention import attention_of, dot_scores, head_sum, pair_scores
from a3gnn.models.layers.block import LayerBlock, csr_matmul
from a3gnn.models.layers.layer import Layer, LayerShapes, linear
from a3gnn.storage.csr_tensor import csr

#: Cost of an edge's score, softmax and product per head, forward and backward, in the units of `LayerShapes`.
#: Guess.
EDGE_COST = 3000
# The forward pass's share of `EDGE_COST`. By evaluations of two graphs on two cores.
_FORWARD_SHARE = 0.1


class EdgeAttention(Layer):
    """Maps every source first, and gathers mapped rows for every edge, because a score needs both ends.

    Heads are concatenated, or averaged in the last layer.

    Attributes:
        width: Columns of each head.
        edge_rows: Mapped rows that the scores gather or compute per edge.
        edge_dim: Columns of the edges' attributes; 0 without any.
    """

    edge_rows: int
    lin_edge: Any  # PyG's Linear has no types

    def __init__(
        self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float, edge_dim: int = 0
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.heads = heads
        self.width = out_channels // heads if concat else out_channels
        self.concat = concat
        self.dropout = dropout
        self.edge_dim = edge_dim
        self.edge_rows += bool(edge_dim)
        self.edge_bytes = 64 + 40 * heads + 4 * self.edge_rows * heads * self.width

    def maps_first(self, work: LayerShapes) -> bool:
        """Returns True: the attention reads mapped rows."""
        return True

    def cost(self, work: LayerShapes) -> float:
        """Returns the layer's cost in the units of `LayerShapes`; both forward and backward write the edges' rows."""
        mapped = self.heads * self.width
        rows = 4 * self.edge_rows * work.num_edges * mapped * (2 if work.trains else 1)
        maps = sum(len(weight) for weight in self.input_weights)
        return work.map_first(self.in_channels, maps) + rows + edges_cost(work, self.heads)

    def forward(self, block: LayerBlock, x: Tensor, dropout: Dropout | None = None, seed: int = 0) -> Tensor:
        """Returns the destinations' output; see `Layer.forward`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        x = x if dropout is None else relu_dropout(x, dropout)
        sources = [linear(x, *one) for one in self._source_maps]
        return self._output(block, sources, self._own(block.destinations(x)), attention).to(x.dtype)

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        return self._output(block, [sources] * len(self._source_maps), self._own(x), Dropout.of(0.0))

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns the maps of the sources side by side, shape (n_rows, maps * heads * width)."""
        weights, biases = zip(*self._source_maps, strict=True)
        return linear(x, torch.cat(weights), torch.cat(biases))

    def linear_part(self, block: LayerBlock, x: Tensor) -> list[Tensor]:
        """Returns the maps' outputs without bias: all sources', then the destinations'; see `Layer.linear_part`."""
        own = block.destinations(x)
        sources = [linear(x, weight) for weight, _ in self._source_maps]
        return sources + [linear(own, weight) for weight, _ in self._own_maps]

    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the output of mapped rows; see `Layer.complete`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        maps, count = self._source_maps + self._own_maps, len(self._source_maps)
        mapped = [part + bias for part, (_, bias) in zip(linear_part, maps, strict=True)]
        return self._output(block, mapped[:count], mapped[count:], attention)

    @property
    @abstractmethod
    def _source_maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each map of sources, shapes (heads * width, in_channels) and (heads * width,)."""

    @property
    @abstractmethod
    def _own_maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each map of destinations."""

    def _own(self, x: Tensor) -> list[Tensor]:
        """Returns the destinations' maps of their input rows `x`."""
        return [linear(x, *one) for one in self._own_maps]

    @abstractmethod
    def _output(self, block: LayerBlock, sources: list[Tensor], own: list[Tensor], attention: Dropout) -> Tensor:
        """Returns the destinations' output, float32.

        Args:
            block: The edges.
            sources: Every source's maps; or, for each of them, the output of `sources`.
            own: The output of `_own` for the destinations.
            attention: Dropout of the attention.
        """

    def _of_edges(self, block: LayerBlock) -> Tensor | None:
        """Returns the mapped attributes of the edges by head, shape (num_edges, heads, width); None without any."""
        return self._by_head(functional.linear(*block.attributes(self.lin_edge.weight))) if self.edge_dim else None

    def _by_head(self, rows: Tensor) -> Tensor:
        """Returns mapped rows by head, shape (n_rows, heads or more, width)."""
        return at_least_single(rows).view(len(rows), rows.shape[1] // self.width, self.width)

    def _joined(self, by_head: Tensor) -> Tensor:
        """Returns `by_head`, (num_dst, heads, width), with heads concatenated or averaged: (num_dst, out_channels)."""
        return by_head.flatten(1) if self.concat else by_head.mean(dim=1)


class GATv2Layer(EdgeAttention):
    """Sums `W_l x` of the in-neighbors and the node itself by the softmax of `a . LeakyReLU(W_l source + W_r self)`.

    A self loop of the graph counts once. Mapped attributes of edges add to the sum before LeakyReLU.
    """

    edge_rows = 2

    def __init__(
        self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float, edge_dim: int = 0
    ) -> None:
        super().__init__(in_channels, out_channels, heads=heads, concat=concat, dropout=dropout, edge_dim=edge_dim)
        self.lin_l = Linear(in_channels, heads * self.width, weight_initializer="glorot")
        self.lin_r = Linear(in_channels, heads * self.width, weight_initializer="glorot")
        self.att = nn.Parameter(torch.empty(1, heads, self.width))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        glorot(self.att)
        if edge_dim:
            self.lin_edge = Linear(edge_dim, heads * self.width, bias=False, weight_initializer="glorot")

    @property
    def input_weights(self) -> list[Tensor]:
        """The weights for sources and for destinations; see `Layer.input_weights`."""
        return [self.lin_l.weight, self.lin_r.weight]

    @property
    def _source_maps(self) -> list[tuple[Tensor, Tensor]]:
        return [(self.lin_l.weight, self.lin_l.bias)]

    @property
    def _own_maps(self) -> list[tuple[Tensor, Tensor]]:
        return [(self.lin_r.weight, self.lin_r.bias)]

    def _output(self, block: LayerBlock, sources: list[Tensor], own: list[Tensor], attention: Dropout) -> Tensor:
        source, target = self._by_head(sources[0]), self._by_head(own[0])
        looped = block.looped
        score = pair_scores(looped, source, target, self._of_edges(looped), self.att[0], NEGATIVE_SLOPE)
        return self._joined(attention_sum(looped, score, source, attention)) + self.bias


class TransformerLayer(EdgeAttention):
    """Sums in-neighbors' values by the softmax of `query . key / sqrt(width)`, and adds a map of the node itself.

    Mapped attributes of edges add to keys and to values.
    """

    edge_rows = 3

    def __init__(
        self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float, edge_dim: int = 0
    ) -> None:
        super().__init__(in_channels, out_channels, heads=heads, concat=concat, dropout=dropout, edge_dim=edge_dim)
        self.lin_key, self.lin_query, self.lin_value = (nn.Linear(in_channels, heads * self.width) for _ in range(3))
        self.lin_skip = nn.Linear(in_channels, out_channels)
        if edge_dim:
            self.lin_edge = nn.Linear(edge_dim, heads * self.width, bias=False)

    @property
    def input_weights(self) -> list[Tensor]:
        """The weights for keys, queries, values and the node itself; see `Layer.input_weights`."""
        return [one.weight for one in (self.lin_key, self.lin_query, self.lin_value, self.lin_skip)]

    @property
    def _source_maps(self) -> list[tuple[Tensor, Tensor]]:
        return [(one.weight, one.bias) for one in (self.lin_key, self.lin_value)]

    @property
    def _own_maps(self) -> list[tuple[Tensor, Tensor]]:
        return [(one.weight, one.bias) for one in (self.lin_query, self.lin_skip)]

    def _output(self, block: LayerBlock, sources: list[Tensor], own: list[Tensor], attention: Dropout) -> Tensor:
        key, value, query = (self._by_head(one) for one in (*sources, own[0]))
        added = self._of_edges(block)
        score = dot_scores(block, query, key, added, 1 / math.sqrt(self.width))
        return self._joined(attention_sum(block, score, value, attention, added)) + at_least_single(own[1])


def edges_cost(work: LayerShapes, heads: int) -> float:
    """Returns the cost of the softmax and the weighted sum over the edges, in the units of `LayerShapes`."""
    return EDGE_COST * work.num_edges * heads * (1 if work.trains else _FORWARD_SHARE)


def attention_sum(
    block: LayerBlock, score: Tensor, by_head: Tensor, dropout: Dropout, added: Tensor | None = None
) -> Tensor:
    """Returns each destination's sums, weighted by the softmax of its scores, shape (num_dst, heads, width).

    On a device it is one product with a block matrix whose row h * num_dst + i is destination i under head h. So
    messages per edge and head are never stored.

    Args:
        block: The edges.
        score: float32, or float64 on the CPU, shape (num_edges, heads).
        by_head: The sources' rows, of the same dtype, contiguous, shape (num_src, heads or more, width); the last
            `heads` of each source are summed.
        dropout: Dropout of the softmax's output.
        added: Rows by edge that are added to the sources', shape (num_edges, heads, width); None adds nothing.
    """
    if not score.is_cuda:
        return head_sum(block, attention_of(block, score, dropout), by_head, added)
    attention = softmax(score, ptr=block.indptr.long())
    if dropout.threshold:
        attention = attention * _at_slots(dropout, block).factors(attention)
    num_src, rows, width = by_head.shape
    heads = score.shape[1]
    starts, columns = by_head_matrix(block.indptr, block.indices, heads, num_src, rows)
    flat = by_head.reshape(num_src * rows, width)
    out: Tensor = _EdgeWeightedSum.apply(starts, columns, attention.t().flatten(), flat)  # type: ignore[no-untyped-call]
    out = out.view(heads, block.num_dst, width).transpose(0, 1)
    return out if added is None else out.index_add(0, block.rows, attention.unsqueeze(2) * added)


def _at_slots(dropout: Dropout, block: LayerBlock) -> Dropout:
    """Returns `dropout` with the places that the block's edges, one row each, have in the whole mini-batch."""
    if block.whole is None:
        return dropout
    own, whole = block.indptr.long().cpu(), block.whole.block.indptr.long()
    first = whole[block.whole.places[: block.num_dst].cpu()] - own[:-1]
    places = torch.arange(int(own[-1])) + first.repeat_interleave(own.diff())
    return dropout.at(places.to(block.indptr.device), int(whole[-1]))


def by_head_matrix(indptr: Tensor, indices: Tensor, heads: int, num_src: int, rows: int) -> tuple[Tensor, Tensor]:
    """Returns the block matrix's `indptr` and `indices`, in the arguments' dtype, or int64 if that is too narrow.

    Each source has `rows` columns; the last `heads` belong to the heads.
    """
    num_edges = indices.numel()
    if max(rows * num_src, heads * num_edges) > torch.iinfo(indices.dtype).max:
        indptr, indices = indptr.long(), indices.long()
    head = torch.arange(heads, device=indices.device, dtype=indices.dtype).unsqueeze(1)
    columns = (indices * rows + (rows - heads) + head).flatten()
    starts = functional.pad((indptr[:-1] + head * num_edges).flatten(), (0, 1), value=heads * num_edges)
    return starts, columns


def at_least_single(x: Tensor) -> Tensor:
    """Returns `x` in float32 if it is bfloat16, otherwise unchanged."""
    return x.float() if x.dtype is torch.bfloat16 else x


class _EdgeWeightedSum(torch.autograd.Function):
    """A CSR product with a gradient by its stored values, in any order within a row.

    Torch's gradient by the values of a CSR tensor assumes sorted and distinct columns; its gradient by the CSR tensor
    itself does not.
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
