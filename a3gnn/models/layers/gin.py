"""Graph isomorphism network (Xu et al., 2019), as PyG's `GINConv` over an MLP of two layers."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch_geometric.nn.models import MLP

from a3gnn.models.layers.aggregation import aggregated
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.layer import PYG_NORMS, Layer, linear
from a3gnn.models.layers.norm import norm_relu


class GINLayer(Layer):
    """`MLP(sum of in-neighbors + (1 + eps) self)`, eps fixed at 0.

    The MLP normalizes its hidden layer, by default with a batch norm, like PyG's `MLP`. Sums over tens of neighbors
    grow from layer to layer, and without a norm training on such graphs never leaves chance. A single row has no
    variance, so a mini-batch of one seed uses the running statistics and doesn't update them, as in PyG's `BatchNorm`
    with `allow_single_element`.
    """

    aggregator = "sum"
    eps: Tensor

    def __init__(self, in_channels: int, out_channels: int, *, norm: Literal["batch", "layer"] = "batch") -> None:
        super().__init__(in_channels, out_channels)
        kind, options = PYG_NORMS[norm]
        self.nn = MLP([in_channels, out_channels, out_channels], norm=kind, norm_kwargs=options)
        self.register_buffer("eps", torch.zeros(1))

    @property
    def input_weights(self) -> list[Tensor]:
        """The weight of the MLP's first map; see `Layer.input_weights`."""
        return [self.nn.lins[0].weight]

    def combine(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """Returns the MLP of `inputs`; see `Layer.combine`."""
        first = self.nn.lins[0]
        return self._rest(linear(inputs, first.weight, first.bias))

    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the MLP's output from its first map without a bias; see `Layer.complete`."""
        return self._rest(linear_part[0] + self.nn.lins[0].bias)

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns the first map of the MLP without its bias, or `x` if it comes later."""
        return linear(x, self.nn.lins[0].weight) if mapped else x

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        total = aggregated("sum", block, sources)
        return self._rest(total.add_(self.nn.lins[0].bias.to(total.dtype))) if mapped else self.combine(total)

    def _rest(self, hidden: Tensor) -> Tensor:
        """Returns the MLP's output from its first map's output."""
        second = self.nn.lins[1]
        return linear(norm_relu(hidden, self.nn.norms[0]), second.weight, second.bias)
