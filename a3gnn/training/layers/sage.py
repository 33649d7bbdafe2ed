"""GraphSAGE with the mean aggregator (Hamilton et al., 2017), as PyG's `SAGEConv`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.layers.layer import Layer, linear
from a3gnn.training.layers.neighbour_sum import neighbour_sum


class SAGELayer(Layer):
    """`W_l mean(in-neighbours) + b + W_r self`."""

    aggregator = "mean"

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.lin_l = nn.Linear(in_channels, out_channels)
        self.lin_r = nn.Linear(in_channels, out_channels, bias=False)

    @property
    def input_weights(self) -> list[Tensor]:
        """Those of in-neighbours and of the node itself; see `Layer.input_weights`."""
        return [self.lin_l.weight, self.lin_r.weight]

    def combine(self, inputs: Tensor) -> Tensor:
        """Returns the output, in one product; see `Layer.combine`."""
        return linear(inputs, torch.cat([self.lin_l.weight, self.lin_r.weight], dim=1), self.lin_l.bias)

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W_l x`, or `x` if the map comes later."""
        return linear(x, self.lin_l.weight) if mapped else x

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        own = linear(x, self.lin_r.weight, self.lin_l.bias)
        if mapped:
            return neighbour_sum(block, sources, block.shares, onto=own)
        return own + linear(neighbour_sum(block, sources, block.shares), self.lin_l.weight)
