"""`Transformer`: PyG's `TransformerConv` in PyG's `BasicGNN`, a combination without a class in PyG."""

from __future__ import annotations

from typing import Any

from torch_geometric.nn import TransformerConv
from torch_geometric.nn.models.basic_gnn import BasicGNN


class Transformer(BasicGNN):  # type: ignore[misc]  # PyG's classes have no types
    """PyG's `GAT` with `TransformerConv` instead of `GATConv`; heads are averaged in the last layer."""

    supports_edge_weight = False
    supports_edge_attr = True

    def init_conv(self, in_channels: int, out_channels: int, *, heads: int, **options: Any) -> TransformerConv:
        """Returns a layer with `out_channels` output columns; `options` are PyG's, which has no types."""
        concat = len(self.convs) < self.num_layers - 1
        width = out_channels // heads if concat else out_channels
        return TransformerConv(in_channels, width, heads=heads, concat=concat, dropout=self.dropout.p, **options)
