"""`EdgeAttention`: attention whose scores depend on the mapped rows of an edge's both ends, together."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from a3gnn.training.layers.activation import relu_dropout
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.layers.cost import Work
from a3gnn.training.layers.dropout import Dropout
from a3gnn.training.layers.edge_softmax import edges_cost
from a3gnn.training.layers.layer import Layer, linear


class EdgeAttention(Layer):
    """Maps every source first, and gathers what it maps for every edge: there is no score of a source alone.

    Heads are concatenated, or averaged in the last layer.

    Attributes:
        heads: Heads.
        width: Columns of each.
        edge_rows: Mapped rows that the scores gather or make for each edge.
    """

    edge_rows: int

    def __init__(self, in_channels: int, out_channels: int, *, heads: int, concat: bool, dropout: float) -> None:
        super().__init__(in_channels, out_channels)
        self.heads = heads
        self.width = out_channels // heads if concat else out_channels
        self.concat = concat
        self.dropout = dropout
        self.edge_bytes = 64 + 40 * heads + 4 * self.edge_rows * heads * self.width

    def maps_first(self, work: Work) -> bool:
        """Returns True: the attention reads mapped rows."""
        return True

    def cost(self, work: Work) -> float:
        """Returns what the layer costs, in the units of `Work`: backward writes the rows of edges as forward does."""
        mapped = self.heads * self.width
        rows = 4 * self.edge_rows * work.num_edges * mapped * (2 if work.trains else 1)
        maps = sum(len(weight) for weight in self.input_weights)
        return work.map_first(self.in_channels, maps) + rows + edges_cost(work, self.heads)

    def forward(self, block: LayerBlock, x: Tensor, dropout: Dropout | None = None, seed: int = 0) -> Tensor:
        """Returns the destinations' output; see `Layer.forward`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        x = x if dropout is None else relu_dropout(x, dropout)
        sources = self.sources(x, mapped=True)
        return self._output(block, sources, self._own(block.destinations(x)), attention).to(x.dtype)

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        return self._output(block, sources, self._own(x), Dropout.of(0.0))

    def linear_part(self, block: LayerBlock, x: Tensor) -> list[Tensor]:
        """Returns every map without its bias: that of all sources, then those of destinations; see `Layer`."""
        own = block.destinations(x)
        return [linear(x, self._source_map[0]), *(linear(own, weight) for weight, _ in self._own_maps)]

    def complete(self, block: LayerBlock, linear_part: list[Tensor], seed: int = 0) -> Tensor:
        """Returns the output of mapped rows; see `Layer.complete`."""
        attention = Dropout.of(self.dropout if self.training else 0.0, seed, "attention")
        maps = [self._source_map, *self._own_maps]
        sources, *own = (part + bias for part, (_, bias) in zip(linear_part, maps, strict=True))
        return self._output(block, sources, own, attention)

    @property
    @abstractmethod
    def _source_map(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of `sources`, shapes (n_columns, in_channels) and (n_columns,)."""

    @property
    @abstractmethod
    def _own_maps(self) -> list[tuple[Tensor, Tensor]]:
        """The same of each map of destinations."""

    def _own(self, x: Tensor) -> list[Tensor]:
        """Returns what the maps of destinations make of their input rows `x`."""
        return [linear(x, *one) for one in self._own_maps]

    @abstractmethod
    def _output(self, block: LayerBlock, sources: Tensor, own: list[Tensor], attention: Dropout) -> Tensor:
        """Returns the destinations' output, float32.

        Args:
            block: The edges.
            sources: Of every source, as `sources` returns them.
            own: Of the destinations, as `_own` returns them.
            attention: Dropout of the weights.
        """

    def _joined(self, by_head: Tensor) -> Tensor:
        """Returns (num_dst, heads, width) side by side or averaged, shape (num_dst, out_channels)."""
        return by_head.flatten(1) if self.concat else by_head.mean(dim=1)


def at_least_single(x: Tensor) -> Tensor:
    """Returns `x` in float32 where it is bfloat16, otherwise as it is."""
    return x.float() if x.dtype is torch.bfloat16 else x
