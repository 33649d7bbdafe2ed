"""The protocol of graph layers: a row-wise step on the sources, then an aggregation into the destinations.

The two steps are separate so that full-neighbor evaluation can run the first over all nodes once, in chunks.

Two other steps serve features that are split by columns: `linear_part`, which is linear in the input and thus a sum
over its columns, and `complete`, which does the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from a3gnn.features.row_table import Aggregator
from a3gnn.models.layers.activation import Dropout, relu_dropout
from a3gnn.models.layers.aggregation import aggregated
from a3gnn.models.layers.block import LayerBlock, csr_matmul
from a3gnn.models.layers.product import product
from a3gnn.models.layers.sparse_linear import sparse_linear

# Floating-point operations of a matrix product in the time of moving one byte: 2 cores multiply at 80 to 160 GFLOP/s
# and aggregate rows at 8 to 10 GB/s. Machines differ by less than the costs of the two orders usually do.
_FLOPS_PER_BYTE = 14

#: PyG's name and options of each norm. The batch norm uses the running statistics for a single row, which has no
#: variance. The layer norm normalizes each row separately.
PYG_NORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "batch": ("batch_norm", {"allow_single_element": True}),
    "layer": ("layer_norm", {"mode": "node"}),
}


@dataclass(frozen=True, slots=True)
class LayerShapes:
    """The shapes that a layer's cost depends on."""

    num_src: int  # rows to map if the map comes first
    num_dst: int  # rows to map if the map comes last
    num_edges: int  # rows to aggregate in both cases
    sparse: bool = False  # whether the input is sparse CSR
    trains: bool = False  # whether gradients are computed
    needs_input: bool = False  # whether gradients reach the layer's input

    def map_first(self, in_channels: float, out_channels: int) -> float:
        """Returns the cost of mapping every source and aggregating the mapped rows, in bytes moved."""
        passes = 1 + self.trains + self.needs_input
        product = 2 * self.num_src * in_channels * out_channels * passes / _FLOPS_PER_BYTE
        # A narrow map takes as long as reading its input. The activation's gradient needs one more pass.
        streamed = 4 * self.num_src * in_channels * (passes + self.needs_input)
        return product + streamed + 4 * self.num_edges * out_channels * (1 + self.trains)

    def normalize(self, channels: int) -> float:
        """Returns the cost of normalizing every source: two reads and a write, and five passes for gradients."""
        return 4 * self.num_src * channels * (8 if self.trains else 3)

    def add_own(self, in_channels: int, out_channels: int, *, mapped: bool) -> float:
        """Returns the cost of adding each destination's own input row, which may be `mapped` before."""
        added = 4 * self.num_dst * out_channels * (5 if self.trains else 3)
        if not mapped:
            return added
        own = LayerShapes(self.num_dst, self.num_dst, 0, trains=self.trains, needs_input=self.needs_input)
        return added + own.map_first(in_channels, out_channels)

    def aggregate_first(self, in_channels: int, out_channels: int, heads: int = 1) -> float:
        """Returns the cost of aggregating the input's rows, once per head, and mapping the aggregates."""
        # Gradients of attention weights need the aggregate's gradient, even if the input needs none.
        to_aggregate = self.needs_input or (heads > 1 and self.trains)
        passes = 1 + self.trains + to_aggregate
        product = 2 * self.num_dst * in_channels * out_channels * passes / _FLOPS_PER_BYTE
        streamed = 4 * in_channels * (self.num_dst * heads * passes + self.num_src * self.needs_input)
        return product + streamed + 4 * self.num_edges * in_channels * heads * (1 + to_aggregate)


class Layer(nn.Module, ABC):
    """A graph layer.

    Linear maps commute with sums and means, so each layer picks the cheaper order. The result is the same.

    Attributes:
        aggregator: The layer's aggregation of input rows before any weights; None if it has none.
        in_channels: Columns of the input.
        out_channels: Columns of the output.
        needs_degrees: Whether the layer reads the block's `in_degrees`.
        edge_bytes: Peak bytes per edge of `update`, without gradients.
    """

    aggregator: ClassVar[Aggregator | None] = None
    needs_degrees = False
    edge_bytes = 16

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels

    def maps_first(self, work: LayerShapes) -> bool:
        """Returns whether the linear map should come before the aggregation; always True for a sparse input."""
        widths = self.in_channels, self.out_channels
        return work.sparse or work.map_first(*widths) < work.aggregate_first(*widths)

    def cost(self, work: LayerShapes) -> float:
        """Returns the layer's cost in the cheaper order, in the units of `LayerShapes`."""
        widths = self.in_channels, self.out_channels
        return work.map_first(*widths) if work.sparse else min(work.map_first(*widths), work.aggregate_first(*widths))

    def forward(self, block: LayerBlock, x: Tensor, dropout: Dropout | None = None, seed: int = 0) -> Tensor:
        """Returns the destinations' output, of the dtype of `x`, shape (num_dst, out_channels).

        Args:
            block: Destinations are the first of the sources.
            x: Sources, float32 or bfloat16, shape (num_src, in_channels), dense, or float32 in sparse CSR.
            dropout: ReLU and this dropout are applied first and overwrite `x`; None uses `x` unchanged.
            seed: Seed of the layer's own random numbers in training.
        """
        mapped = self.maps_first(work_of(block, x))
        if self.aggregator is not None and not mapped:
            return self.combine(aggregated(self.aggregator, block, x, dropout))
        x = x if dropout is None else relu_dropout(x, dropout)
        return self.update(block, self.sources(x, mapped), block.destinations(x), mapped)

    @property
    @abstractmethod
    def input_weights(self) -> list[Tensor]:
        """The weights that map the layer's input, parameters of shape (out, in_channels)."""

    def combine(self, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        """Returns the output for rows from `aggregator`, of their dtype, (n_rows, out_channels).

        Args:
            inputs: float32 or bfloat16, shape (n_rows, `a3gnn.features.row_table.input_width`).
            residual: Weights that map the own rows, added to the output, shape (out_channels, in_channels); None adds
                nothing. Only an aggregator that keeps own rows takes some.
        """
        raise NotImplementedError(f"{type(self).__name__} has no aggregator")

    def linear_part(self, block: LayerBlock, x: Tensor) -> list[Tensor]:
        """Returns the part of the output that is linear in the input: no bias and nothing nonlinear.

        For a layer with only some columns of the input, the parts of all columns add up to the whole. Rows are
        destinations if the layer has an `aggregator`, which is linear too, and sources if attention reads mapped rows.

        Args:
            block: Destinations are the first of the sources.
            x: Sources, dense, shape (num_src, in_channels).

        Returns:
            Matrices of the dtype of `x`; their number and shapes depend only on `block` and the layer's outputs.
        """
        assert self.aggregator is not None, "attention says what it maps"
        (weight,) = self.input_weights
        if self.maps_first(work_of(block, x)):
            return [aggregated(self.aggregator, block, linear(x, weight))]
        return [linear(aggregated(self.aggregator, block, x), weight)]

    @abstractmethod
    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the destinations' output, shape (num_dst, out_channels).

        `linear_part` is summed over all columns of the input; other arguments are as for `forward`.
        """

    @abstractmethod
    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns each source's row for the aggregation, of the dtype of `x`, shape (n_rows, n_columns).

        Args:
            x: Any rows of the input.
            mapped: Whether the linear map comes first. If not, layers that don't always map first return `x` itself.
        """

    @abstractmethod
    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output, of the dtype of `x`, shape (num_dst, out_channels).

        Args:
            block: The edges.
            sources: The output of `sources` for every source.
            x: The destinations' rows of the input.
            mapped: The same value as for `sources`.
        """


def work_of(block: LayerBlock, x: Tensor) -> LayerShapes:
    """Returns the shapes of a layer on `block` with the input `x`.

    For a share they are the whole mini-batch's, because a layer's order determines the last bits and what it drops.
    """
    block = block if block.whole is None else block.whole.block
    sparse, trains = x.layout is torch.sparse_csr, torch.is_grad_enabled()
    return LayerShapes(block.num_src, block.num_dst, block.indices.numel(), sparse, trains, trains and x.requires_grad)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns `x @ weight.T + bias`, dense, shape (n, out_channels): float32, or bfloat16 if `x` is.

    Args:
        x: Dense or sparse CSR, shape (n, in_channels).
        weight: float32, shape (out_channels, in_channels).
        bias: float32, shape (out_channels,); None adds nothing.
    """
    if x.dtype is torch.bfloat16:
        return product(x, weight, bias)
    if x.layout is not torch.sparse_csr:
        return functional.linear(x, weight, bias)
    if not x.is_cuda:
        return sparse_linear(x, weight, bias)
    mapped = csr_matmul(x, weight.t())
    return mapped if bias is None else mapped + bias


def make_norm(name: str, width: int) -> nn.Module:
    """Returns PyG's `BatchNorm` or `LayerNorm`. Importing PyG takes 65 MiB.

    Args:
        name: batch or layer.
        width: Number of columns.
    """
    from torch_geometric.nn.resolver import normalization_resolver

    kind, options = PYG_NORMS[name]
    made: nn.Module = normalization_resolver(kind, width, **options)
    return made
