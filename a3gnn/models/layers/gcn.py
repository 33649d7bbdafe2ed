"""Graph convolution with symmetric normalization (Kipf and Welling, 2017), as PyG's `GCNConv`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from a3gnn.models.layers.aggregation import aggregated
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.layer import Layer, linear


class GCNLayer(Layer):
    """`W sum over in-neighbors and self of x / sqrt(d_source d_destination) + b`, where d counts the node itself.

    Degrees are taken from the sampled graph, as `GCNConv` does with a mini-batch's `edge_index`. A self loop of the
    graph counts once.
    """

    aggregator = "gcn"
    needs_degrees = True
    edge_bytes = 48

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        nn.init.xavier_uniform_(self.lin.weight)  # PyG calls it glorot
        self.bias = nn.Parameter(torch.zeros(out_channels))

    @property
    def input_weights(self) -> list[Tensor]:
        """`W`; see `Layer.input_weights`."""
        return [self.lin.weight]

    def combine(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """Returns `W inputs + b`; see `Layer.combine`."""
        return linear(inputs, self.lin.weight, self.bias)

    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the linear part plus the bias; see `Layer.complete`."""
        return linear_part[0] + self.bias

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W x`, or `x` if the map comes later."""
        return linear(x, self.lin.weight) if mapped else x

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        total = aggregated("gcn", block, sources)
        return total.add_(self.bias.to(total.dtype)) if mapped else self.combine(total)
