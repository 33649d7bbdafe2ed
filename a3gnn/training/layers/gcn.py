"""Graph convolution with symmetric normalisation (Kipf and Welling, 2017), as PyG's `GCNConv`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from a3gnn.training.layers.block import Block
from a3gnn.training.layers.layer import Layer, linear


class GCNLayer(Layer):
    """`W sum over in-neighbours and self of x / sqrt(d_source d_destination) + b`, d counting the node itself.

    Degrees are those of the sampled graph, as `GCNConv` takes them from a mini-batch's `edge_index`. A self loop that
    the graph has counts once.
    """

    needs_degrees = True
    edge_bytes = 48

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        nn.init.xavier_uniform_(self.lin.weight)  # PyG calls it glorot
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W x`, or `x` if the map comes later."""
        return linear(x, self.lin.weight) if mapped else x

    def update(self, block: Block, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        assert block.in_degrees is not None
        scale = (block.in_degrees + 1).rsqrt()
        own = scale.index_select(0, block.dst_ids)
        weights = scale.index_select(0, block.indices) * own.index_select(0, block.rows)
        weights = weights.masked_fill(block.self_loops, 0.0)
        total = block.aggregate(sources, "sum", weights) + own.square().unsqueeze(1) * block.destinations(sources)
        return (total if mapped else linear(total, self.lin.weight)) + self.bias
