"""Cost of one layer, forward and backward, shared by the surrogate and the hybrid performance model.

HyScale-GNN's Eqs. 10 to 12: aggregation is traffic of |E^l| rows, the update is a matrix product of |V^l| rows.
`message_width` is the width of these rows, which differs between the paper and a3gnn's own layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

#: A number, or one per configuration, float64.
N = TypeVar("N", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Operators:
    """Operations of one layer, counted by hand from the models' definitions; attention's are a guess.

    Attributes:
        maps_destinations: Linear maps in -> out applied to the layer's destinations.
        maps_sources: Linear maps in -> out applied to its sources.
        maps_output: Linear maps out -> out applied to its destinations.
        input_widths: Values that the input layer reads per destination when aggregation is fused with the gather, in
            multiples of the feature width; 0 if the model reads the rows themselves.
        edge_passes: Passes over the edges' messages.
        edge_values: Values kept for backward per edge and head.
        edge_widths: Mapped rows, in float32, kept for backward per edge, if scores are of pairs of mapped rows; every
            head of the last layer is then as wide as the output.
    """

    maps_destinations: int
    maps_sources: int
    maps_output: int
    input_widths: int
    edge_passes: int
    edge_values: int
    edge_widths: int = 0


#: Operators of the built-in models.
OPERATORS = {
    "sage": Operators(maps_destinations=2, maps_sources=0, maps_output=0, input_widths=2, edge_passes=1, edge_values=0),
    "gcn": Operators(maps_destinations=1, maps_sources=0, maps_output=0, input_widths=1, edge_passes=1, edge_values=0),
    "gin": Operators(maps_destinations=1, maps_sources=0, maps_output=1, input_widths=1, edge_passes=1, edge_values=0),
    "gat": Operators(maps_destinations=0, maps_sources=1, maps_output=0, input_widths=0, edge_passes=3, edge_values=14),
    "gatv2": Operators(
        maps_destinations=1, maps_sources=1, maps_output=0, input_widths=0, edge_passes=3, edge_values=14, edge_widths=1
    ),
    "transformer": Operators(
        maps_destinations=2, maps_sources=2, maps_output=0, input_widths=0, edge_passes=3, edge_values=14, edge_widths=2
    ),
}


@dataclass(frozen=True, slots=True)
class LayerCost(Generic[N]):
    """One layer of a mini-batch."""

    width_in: int  # values per source
    width_out: int  # values per destination
    sources: N  # nodes that are aggregated from
    destinations: N  # nodes that are computed, |V^l|
    edges: N  # sampled edges between them, |E^l|
    first: bool  # whether it is the input layer
    last: bool  # whether it is the output layer


@dataclass(frozen=True, slots=True)
class Passes:
    """How often a training step runs a layer's update and aggregation.

    Attributes:
        update: Updates of each layer but the first: forward, and backward for the gradients of weights and inputs.
        first_update: Updates of the first layer, whose inputs need no gradient.
        aggregation: Aggregations of each layer but the first.
        first_aggregation: Aggregations of the first layer.
    """

    update: int = 3
    first_update: int = 2
    aggregation: int = 2
    first_aggregation: int = 1

    @property
    def forward(self) -> Passes:
        """The passes of forward propagation alone."""
        return Passes(1, 1, 1, 1)

    @property
    def backward(self) -> Passes:
        """The passes of backward propagation alone."""
        return Passes(self.update - 1, self.first_update - 1, self.aggregation - 1, self.first_aggregation - 1)

    def of_update(self, layer: LayerCost[Any]) -> int:
        """Returns how often the update of `layer` runs."""
        return self.first_update if layer.first else self.update

    def of_aggregation(self, layer: LayerCost[Any]) -> int:
        """Returns how often the aggregation of `layer` runs."""
        return self.first_aggregation if layer.first else self.aggregation


#: Passes as counted: backward computes two products per update, one in the first layer.
COUNTED_PASSES = Passes()
#: HyScale-GNN's Eq. 10 as printed: backward costs as much as forward, without the first layer's aggregation.
EQUATION_10_PASSES = Passes(update=2)


def update_flops(layer: LayerCost[N], ops: Operators, width_out: int, passes: Passes = COUNTED_PASSES) -> N:
    """Returns the multiplications and additions of the linear maps in -> out, 2 m n k per product (Eq. 12).

    Args:
        layer: Gives the input width and the mapped nodes.
        ops: Gives the number of maps.
        width_out: Values per mapped row: the layer's, times the heads if each head has its own.
        passes: How often a step runs each map.
    """
    mapped = ops.maps_destinations * layer.destinations + ops.maps_sources * layer.sources
    return passes.of_update(layer) * 2.0 * mapped * (layer.width_in * width_out)


def output_flops(layer: LayerCost[N], ops: Operators, passes: Passes = COUNTED_PASSES) -> N:
    """Returns the operations of the maps out -> out, whose inputs need gradients in the first layer, too."""
    return passes.update * 2.0 * layer.destinations * (layer.width_out**2 * ops.maps_output)


def aggregated_bytes(layer: LayerCost[N], ops: Operators, message: N | float, passes: Passes = COUNTED_PASSES) -> N:
    """Returns the bytes that aggregation reads, `message` bytes per edge (Eq. 11)."""
    return passes.of_aggregation(layer) * ops.edge_passes * layer.edges * message


def map_parameters(ops: Operators, width_in: int, width_out: int) -> int:
    """Returns the number of weights of the linear maps in -> out and out -> out."""
    return width_in * width_out * (ops.maps_destinations + ops.maps_sources) + width_out**2 * ops.maps_output


def model_parameters(ops: Operators, widths: Sequence[int]) -> int:
    """Returns the number of weights of all linear maps of a model whose layers have these `widths`, input first."""
    return sum(map_parameters(ops, width_in, width_out) for width_in, width_out in pairwise(widths))


def message_width(layer: LayerCost[Any], ops: Operators, *, maps_first: bool = True) -> int:
    """Returns the number of values per edge.

    Args:
        layer: The aggregated layer.
        ops: The model's operators. If they map sources (attention), mapped rows are aggregated in any case.
        maps_first: Whether layers map before they aggregate if that is narrower, as a3gnn's own do: min(f^(l-1), f^l)
            values, except for inputs, which are aggregated unmapped. Otherwise f^(l-1) in all layers (Eq. 11).
    """
    if not ops.maps_sources and (layer.first or not maps_first):
        return layer.width_in
    return min(layer.width_in, layer.width_out)
