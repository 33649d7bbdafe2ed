"""Graph attention whose scores rank sources differently for each destination (Brody et al., 2022), as `GATv2Conv`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot

from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.edge_attention import (
    NEGATIVE_SLOPE,
    EdgeAttention,
    at_least_single,
    at_slots,
    attention_sum,
    with_self_loops,
)
from a3gnn.models.layers.layer import linear


class GATv2Layer(EdgeAttention):
    """Sums `W_l x` of the in-neighbors and the node itself by the softmax of `a . LeakyReLU(W_l source + W_r self)`.

    A self loop of the graph counts once.
    """

    edge_rows = 2

    def __init__(self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float) -> None:
        super().__init__(in_channels, out_channels, heads=heads, concat=concat, dropout=dropout)
        self.lin_l = Linear(in_channels, heads * self.width, weight_initializer="glorot")
        self.lin_r = Linear(in_channels, heads * self.width, weight_initializer="glorot")
        self.att = nn.Parameter(torch.empty(1, heads, self.width))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        glorot(self.att)

    @property
    def input_weights(self) -> list[Tensor]:
        """The weights for sources and for destinations; see `Layer.input_weights`."""
        return [self.lin_l.weight, self.lin_r.weight]

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W_l x` of all heads, shape (n_rows, heads * width)."""
        return linear(x, *self._source_map)

    @property
    def _source_map(self) -> tuple[Tensor, Tensor]:
        return self.lin_l.weight, self.lin_l.bias

    @property
    def _own_maps(self) -> list[tuple[Tensor, Tensor]]:
        return [(self.lin_r.weight, self.lin_r.bias)]

    def _output(self, block: LayerBlock, sources: Tensor, own: list[Tensor], attention: Dropout) -> Tensor:
        indptr, indices = with_self_loops(block)
        counts = (indptr[1:] - indptr[:-1]).long()
        by_head = at_least_single(sources).view(block.num_src, self.heads, self.width)
        target = at_least_single(own[0]).view(-1, self.heads, self.width)
        pairs = by_head.index_select(0, indices)
        pairs = pairs.add_(target.repeat_interleave(counts, dim=0, output_size=indices.numel()))
        pairs = functional.leaky_relu_(pairs, NEGATIVE_SLOPE)
        score = torch.stack([pairs[:, head] @ weight for head, weight in enumerate(self.att[0])], dim=1)
        attention = at_slots(attention, block, looped=True)
        return self._joined(attention_sum(indptr, indices, score, by_head, attention)) + self.bias
