"""The protocol of graph layers: a row-wise step on the sources, then an aggregation into the destinations.

The two steps are apart so that full-neighbour evaluation can run the first over all nodes once, in chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from a3gnn.training.layers.block import Block, csr_matmul


class Layer(nn.Module, ABC):
    """A graph layer. Linear maps commute with sums and means, so each picks the cheaper order; the result is the same.

    Attributes:
        in_channels: Columns of the input.
        out_channels: Columns of the output.
        needs_degrees: Whether `update` reads the block's `in_degrees`.
        edge_bytes: What `update` takes for an edge at its peak, without gradients.
    """

    needs_degrees = False
    edge_bytes = 16

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels

    def maps_first(self, *, sparse: bool, cheap: bool) -> bool:
        """Returns whether the linear map should come before the aggregation.

        Args:
            sparse: Whether the input is CSR: then always, so that it is never made dense.
            cheap: Whether mapping all sources costs little more than mapping the destinations, or its gradient is
                needed anyway: then where the output is narrower than the input.
        """
        return sparse or (cheap and self.out_channels < self.in_channels)

    def forward(self, block: Block, x: Tensor) -> Tensor:
        """Returns the destinations' output, float32, shape (num_dst, out_channels).

        Args:
            block: Destinations are the first of the sources.
            x: Sources, float32, shape (num_src, in_channels), dense or sparse CSR.
        """
        cheap = x.requires_grad or block.num_src <= 2 * block.num_dst
        mapped = self.maps_first(sparse=x.layout is torch.sparse_csr, cheap=cheap)
        return self.update(block, self.sources(x, mapped), block.destinations(x), mapped)

    @abstractmethod
    def sources(self, x: Tensor, mapped: bool) -> Tensor:
        """Returns what the destinations aggregate of each source, float32, shape (n_rows, n_columns).

        Args:
            x: Any rows of the input.
            mapped: Whether the linear map comes first; if not, and if the layer may, `x` itself is returned.
        """

    @abstractmethod
    def update(self, block: Block, sources: Tensor, x: Tensor, mapped: bool) -> Tensor:
        """Returns the destinations' output, float32, shape (num_dst, out_channels).

        Args:
            block: The edges.
            sources: Of every source, as `sources` returned them.
            x: The destinations' rows of the input.
            mapped: As it was for `sources`.
        """


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns `x @ weight.T + bias` for `x` (n, in_channels), dense or sparse CSR, as dense float32 (n, out)."""
    if x.layout is not torch.sparse_csr:
        return functional.linear(x, weight, bias)
    mapped = csr_matmul(x, weight.t())
    return mapped if bias is None else mapped + bias
