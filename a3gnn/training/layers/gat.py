"""Graph attention (Veličković et al., 2018), as PyG's `GATConv`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot

from a3gnn.training.layers.activation import relu_dropout
from a3gnn.training.layers.attention.attended import attended
from a3gnn.training.layers.attention.heads import map_heads
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.layers.cost import Work
from a3gnn.training.layers.dropout import Dropout
from a3gnn.training.layers.edge_attention import at_least_single
from a3gnn.training.layers.edge_softmax import (
    EDGE_COST,
    NEGATIVE_SLOPE,
    at_slots,
    attention_sum,
    edges_cost,
    with_self_loops,
)
from a3gnn.training.layers.layer import Layer, linear, work_of


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
        edges = edges_cost(work, self.heads)
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
        by_head = at_least_single(linear(x, self.lin.weight)).view(block.num_src, self.heads, -1)
        score = at_least_single(linear(x, self._scorer(self.att_src)))
        target = self._targets(block.destinations(x))
        return self._output(self._attend(block, by_head, score, target, attention)).to(x.dtype)

    def linear_part(self, block: LayerBlock, x: Tensor) -> list[Tensor]:
        """Returns `W x` of the sources, all heads: scores are linear in that; see `Layer.linear_part`."""
        return [linear(x, self.lin.weight)]

    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the output of mapped rows; see `Layer.complete`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        by_head = linear_part[0].view(block.num_src, self.heads, -1)
        score, target = ((by_head * part).sum(dim=2) for part in (self.att_src, self.att_dst))
        return self._output(self._attend(block, by_head, score, target.index_select(0, block.dst_ids), attention))

    def _attends_first(self, work: Work) -> bool:
        """Returns whether to sum input rows by each head's attention before they are mapped."""
        widths = self.in_channels, self.lin.weight.shape[0]
        mapping = work.map_first(*widths) + EDGE_COST * work.num_edges * self.heads
        return work.aggregate_first(*widths, heads=self.heads) < mapping

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W x` with each head's source score beside it, shape (n_rows, heads * (width + 1))."""
        weight = self.lin.weight.view(self.heads, -1, self.in_channels)
        return linear(x, torch.cat([weight, self._scorer(self.att_src).unsqueeze(1)], dim=1).flatten(0, 1))

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        by_head = sources.view(block.num_src, self.heads, -1)
        attended_rows = self._attend(block, by_head, by_head[..., -1], self._targets(x), Dropout.of(0.0))
        return self._output(attended_rows[..., :-1])

    def _targets(self, x: Tensor) -> Tensor:
        """Returns the heads' scores of the input rows `x` as destinations, shape (n_rows, heads)."""
        return at_least_single(linear(x, self._scorer(self.att_dst)))

    def _scorer(self, attention: Tensor) -> Tensor:
        """Returns the map from input rows to the heads' scores, float32, shape (heads, in_channels)."""
        weight = self.lin.weight.view(self.heads, -1, self.in_channels)
        scorer: Tensor = (attention.transpose(0, 1) @ weight).squeeze(1)
        return scorer

    def _attend(self, block: LayerBlock, by_head: Tensor, source: Tensor, target: Tensor, dropout: Dropout) -> Tensor:
        """Returns attention-weighted sums, of the dtype of `by_head`, shape (num_dst, heads, n_columns).

        Args:
            block: The edges.
            by_head: What is summed, float32 or float64, shape (num_src, heads, n_columns).
            source: The sources' scores, likewise, shape (num_src, heads).
            target: The destinations' scores, likewise, shape (num_dst, heads).
            dropout: Of the attention.
        """
        indptr, indices = with_self_loops(block)
        counts = (indptr[1:] - indptr[:-1]).long()
        own = target.repeat_interleave(counts, dim=0, output_size=indices.numel())
        score = functional.leaky_relu(source.index_select(0, indices) + own, NEGATIVE_SLOPE)
        return attention_sum(indptr, indices, score, by_head, at_slots(dropout, block, looped=True))

    def _output(self, out: Tensor) -> Tensor:
        return (out.flatten(1) if self.concat else out.mean(dim=1)) + self.bias
