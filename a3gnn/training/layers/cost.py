"""Which comes first, a layer's linear map or its aggregation: an estimate from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

# Floating-point operations of a matrix product in the time of moving one byte: 2 cores multiply at 80 to 160 GFLOP/s
# and aggregate rows at 8 to 10 GB/s. Machines differ by less than the costs of the two orders usually do.
_FLOPS_PER_BYTE = 14


@dataclass(frozen=True, slots=True)
class Work:
    """The shapes that a layer's cost depends on.

    Attributes:
        num_src: Rows to map where the map comes first.
        num_dst: Rows to map where it comes last.
        num_edges: Rows to aggregate, either way.
        sparse: Whether the input is sparse CSR.
        trains: Whether gradients follow.
        needs_input: Whether they reach the layer's input.
    """

    num_src: int
    num_dst: int
    num_edges: int
    sparse: bool = False
    trains: bool = False
    needs_input: bool = False

    def map_first(self, in_channels: int, out_channels: int) -> float:
        """Returns the cost of mapping every source and aggregating the outcome, in bytes moved."""
        passes = 1 + self.trains + self.needs_input
        product = 2 * self.num_src * in_channels * out_channels * passes / _FLOPS_PER_BYTE
        # A narrow map takes as long as reading its input; one more pass undoes the activation before it.
        streamed = 4 * self.num_src * in_channels * (passes + self.needs_input)
        return product + streamed + 4 * self.num_edges * out_channels * (1 + self.trains)

    def normalise(self, channels: int) -> float:
        """Returns the cost of normalising every source: two reads and a write, and five passes of gradients."""
        return 4 * self.num_src * channels * (8 if self.trains else 3)

    def add_own(self, in_channels: int, out_channels: int) -> float:
        """Returns the cost of adding to each destination its own input row, which a map brings to another width."""
        added = 4 * self.num_dst * out_channels * (5 if self.trains else 3)
        if in_channels == out_channels:
            return added
        own = Work(self.num_dst, self.num_dst, 0, trains=self.trains, needs_input=self.needs_input)
        return added + own.map_first(in_channels, out_channels)

    def aggregate_first(self, in_channels: int, out_channels: int, heads: int = 1) -> float:
        """Returns the cost of aggregating the input's rows, once for each of `heads`, and mapping the outcome."""
        # Attention's weights have gradients, which need the aggregate's own, whether or not the input needs any.
        to_aggregate = self.needs_input or (heads > 1 and self.trains)
        passes = 1 + self.trains + to_aggregate
        product = 2 * self.num_dst * in_channels * out_channels * passes / _FLOPS_PER_BYTE
        streamed = 4 * in_channels * (self.num_dst * heads * passes + self.num_src * self.needs_input)
        return product + streamed + 4 * self.num_edges * in_channels * heads * (1 + to_aggregate)
