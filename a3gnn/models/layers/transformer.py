"""Graph transformer (Shi et al., 2021, section 3.1, without edge features), as PyG's `TransformerConv`."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from a3gnn.models.layers.activation import Dropout
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.edge_attention import EdgeAttention, at_least_single, at_slots, attention_sum
from a3gnn.models.layers.layer import linear


class TransformerLayer(EdgeAttention):
    """Sums in-neighbors' values by the softmax of `query . key / sqrt(width)`, and adds a map of the node itself."""

    edge_rows = 3

    def __init__(self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float) -> None:
        super().__init__(in_channels, out_channels, heads=heads, concat=concat, dropout=dropout)
        self.lin_key, self.lin_query, self.lin_value = (nn.Linear(in_channels, heads * self.width) for _ in range(3))
        self.lin_skip = nn.Linear(in_channels, out_channels)

    @property
    def input_weights(self) -> list[Tensor]:
        """The weights for keys, queries, values and the node itself; see `Layer.input_weights`."""
        return [one.weight for one in (self.lin_key, self.lin_query, self.lin_value, self.lin_skip)]

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns every head's key, then every head's value, shape (n_rows, 2 * heads * width)."""
        return linear(x, *self._source_map)

    @property
    def _source_map(self) -> tuple[Tensor, Tensor]:
        maps = self.lin_key, self.lin_value
        return torch.cat([one.weight for one in maps]), torch.cat([one.bias for one in maps])

    @property
    def _own_maps(self) -> list[tuple[Tensor, Tensor]]:
        return [(one.weight, one.bias) for one in (self.lin_query, self.lin_skip)]

    def _output(self, block: LayerBlock, sources: Tensor, own: list[Tensor], attention: Dropout) -> Tensor:
        indptr, indices = block.indptr, block.indices
        rows = at_least_single(sources).view(block.num_src, 2 * self.heads, self.width)
        query = at_least_single(own[0]).view(-1, self.heads, self.width)
        keys = rows[:, : self.heads].index_select(0, indices)
        score = (query.index_select(0, block.rows) * keys).sum(dim=2) / math.sqrt(self.width)
        attention = at_slots(attention, block, looped=False)
        out = self._joined(attention_sum(indptr, indices, score, rows, attention))
        return out + at_least_single(own[1])
