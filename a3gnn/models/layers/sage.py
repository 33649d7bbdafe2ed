"""GraphSAGE with the mean aggregator (Hamilton et al., 2017), as PyG's `SAGEConv`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from a3gnn.models.layers.activation import Dropout, relu_dropout
from a3gnn.models.layers.aggregation import aggregated, neighbor_sum
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.layer import Layer, linear, work_of


class SAGELayer(Layer):
    """`W_l mean(in-neighbors) + b + W_r self`."""

    aggregator = "mean"

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.lin_l = nn.Linear(in_channels, out_channels)
        self.lin_r = nn.Linear(in_channels, out_channels, bias=False)

    @property
    def input_weights(self) -> list[Tensor]:
        """The weights for in-neighbors and for the node itself; see `Layer.input_weights`."""
        return [self.lin_l.weight, self.lin_r.weight]

    def forward(self, block: LayerBlock, x: Tensor, dropout: Dropout | None = None, seed: int = 0) -> Tensor:
        """Returns the destinations' output; see `Layer.forward`."""
        wide = x.dtype is torch.float32 and block.runs_compiled(x)
        if not (wide and x.requires_grad and self.maps_first(work_of(block, x))):
            return super().forward(block, x, dropout, seed)
        x = x if dropout is None else relu_dropout(x, dropout)
        weights = self.lin_l.weight, self.lin_r.weight, self.lin_l.bias
        sources, own = _BothMaps.apply(x, *weights, block.num_dst)  # type: ignore[no-untyped-call]
        return neighbor_sum(block, sources, block.shares, onto=own)

    def combine(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """Returns the output, in one product; see `Layer.combine`."""
        own = self.lin_r.weight if residual is None else self.lin_r.weight + residual
        weights = self.lin_l.weight, own
        if inputs.layout is torch.sparse_csr:  # sparse kernels read weights by column
            return linear(inputs, torch.cat([weight.t() for weight in weights]).t(), self.lin_l.bias)
        return linear(inputs, torch.cat(weights, dim=1), self.lin_l.bias)

    def linear_part(self, block: LayerBlock, x: Tensor) -> list[Tensor]:
        """Returns `W_l mean(in-neighbors) + W_r self` of the destinations; see `Layer.linear_part`."""
        for_mean, for_own = self.input_weights
        if self.maps_first(work_of(block, x)):
            own = linear(block.destinations(x), for_own)
            return [neighbor_sum(block, linear(x, for_mean), block.shares, onto=own)]
        return [linear(aggregated("mean", block, x), torch.cat([for_mean, for_own], dim=1))]

    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the linear part plus the bias; see `Layer.complete`."""
        return linear_part[0] + self.lin_l.bias

    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns `W_l x`, or `x` if the map comes later."""
        return linear(x, self.lin_l.weight) if mapped else x

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        own = linear(x, self.lin_r.weight, self.lin_l.bias)
        if mapped:
            return neighbor_sum(block, sources, block.shares, onto=own)
        return own + linear(neighbor_sum(block, sources, block.shares), self.lin_l.weight)


class _BothMaps(torch.autograd.Function):
    """Maps every row by `W_l` and the first `count` by `W_r`; sums the rows' gradient in place.

    Torch's own gradient of the first rows would fill a matrix of zeros for all rows, copy to it and add it.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, for_all: Tensor, for_first: Tensor, bias: Tensor, count: int
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, for_all, for_first)
        ctx.count = count
        return x @ for_all.t(), torch.addmm(bias, x[:count], for_first.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_all: Tensor, by_first: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        x, for_all, for_first = ctx.saved_tensors
        by_x = by_all @ for_all
        by_x[: ctx.count].addmm_(by_first, for_first)
        return by_x, by_all.t() @ x, by_first.t() @ x[: ctx.count], by_first.sum(0), None
