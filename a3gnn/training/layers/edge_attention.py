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
from a3gnn.training.layers.layer import Layer


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
        return self._output(block, self.sources(x, mapped=True), block.destinations(x), attention).to(x.dtype)

    def update(self, block: LayerBlock, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output; see `Layer.update`."""
        return self._output(block, sources, x, Dropout.of(0.0))

    @abstractmethod
    def _output(self, block: LayerBlock, sources: Tensor, x: Tensor, attention: Dropout) -> Tensor:
        """Returns the destinations' output, float32.

        Args:
            block: The edges.
            sources: Of every source, as `sources` returns them.
            x: The destinations' rows of the input.
            attention: Dropout of the weights.
        """

    def _joined(self, by_head: Tensor) -> Tensor:
        """Returns (num_dst, heads, width) side by side or averaged, shape (num_dst, out_channels)."""
        return by_head.flatten(1) if self.concat else by_head.mean(dim=1)


def at_least_single(x: Tensor) -> Tensor:
    """Returns `x` in float32 where it is bfloat16, otherwise as it is."""
    return x.float() if x.dtype is torch.bfloat16 else x
