"""Cost of a forward and a backward pass by model: operations, bytes and activations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn import layer_cost
from a3gnn.characteristics import GraphCharacteristics
from a3gnn.task import OwnModel, Task
from a3gnn_surrogate.columns import Array, Columns, reads_table, row_entries, served_row_bytes
from a3gnn_surrogate.physics.volume import BatchVolume

#: Cost of training in forward passes: backward costs two.
_PASSES = 3
# How often a norm reads a matrix of the size of the layer's output, forward and backward. Batch norm reads the rows for
# the moments and to scale them, and rows and gradient twice each (`a3gnn.models.layers.norm`). Layer norm keeps a row
# in a core's cache between moments and scaling, so that it reads the rows once, and rows and gradient once each.
_NORM_READS = {"none": 0, "batch": 6, "layer": 3}
# How often a residual connection reads such a matrix: forward, the output and the added rows; backward, the gradient
# for each of the two.
_RESIDUAL_READS = 4


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Cost of one training step of each configuration; arrays are float64, shape (n_configs,)."""

    gemm_flops: Array  # multiplications and additions of linear maps
    spmm_bytes: Array  # bytes of rows that aggregation and sparse products read
    activation_bytes: Array  # bytes of the intermediate results that backward needs
    input_bytes: Array  # bytes of features in a mini-batch
    parameters: int  # number of weights
    narrow: NDArray[np.bool_]  # whether linear maps are computed in bfloat16, bool


def model_cost(columns: Columns, volume: BatchVolume, task: Task, graph: GraphCharacteristics) -> ModelCost:
    """Returns the cost of a step (HyScale-GNN's Eqs. 10 to 12: aggregation is memory traffic, the update is GEMM).

    Passes are counted (`COUNTED_PASSES`): Eq. 10 charges one update less in all but the first layer. In bfloat16,
    activations and inputs take half the bytes, except for sparse features and the layer that reads them. A user's model
    costs what was counted, because nothing else is known of it.
    """
    narrow = columns["compute_dtype"] == "bfloat16"
    if task.own is not None:
        return _own_cost(columns, volume, task, graph, task.own)
    ops = layer_cost.OPERATORS[task.model]
    value_bytes = np.where(narrow, 2.0, 4.0)
    flops, spmm, activations = (np.zeros_like(volume.seeds) for _ in range(3))
    parameters = 0
    stored = np.maximum(row_entries(columns, task, graph), 1.0)
    for layer in _layers(columns, volume, task, graph):
        mapped_width = layer.width_out * (task.heads if ops.edge_widths and layer.last else 1)
        parameters += layer_cost.map_parameters(ops, layer.width_in, mapped_width) + layer.width_out
        size = 4.0 if layer.first and graph.sparse_features else value_bytes
        message, aggregated = size * layer_cost.message_width(layer, ops), layer.width_in
        if layer.first and graph.sparse_features:
            spmm = spmm + layer_cost.COUNTED_PASSES.of_update(layer) * 4.0 * layer.sources * stored * layer.width_out
            message, aggregated = 4.0 * layer.width_out, 0
            activations = activations + 4.0 * layer.sources * layer.width_out
        else:
            flops = flops + layer_cost.update_flops(layer, ops, mapped_width)
        flops = flops + layer_cost.output_flops(layer, ops)
        if not (layer.first and aggregates_while_gathering(task, graph)):
            spmm = spmm + layer_cost.aggregated_bytes(layer, ops, message)
        rows = layer.destinations * (aggregated + (3 + 2 * ops.maps_output) * layer.width_out)
        rows = rows + ops.maps_sources * 2 * layer.sources * mapped_width
        rows = rows + ops.edge_values * task.heads * layer.edges
        activations = activations + 4.0 * ops.edge_widths * layer.edges * mapped_width
        own = stored if layer.first and graph.sparse_features else layer.width_in
        added = between_layers(task, layer, own)
        parameters += added.parameters
        flops, spmm = flops + added.flops, spmm + size * added.read_values
        activations = activations + size * (rows + added.kept_values)
    return ModelCost(flops, spmm, activations, _input_bytes(columns, volume, task, graph), parameters, narrow)


def aggregates_while_gathering(task: Task, graph: GraphCharacteristics) -> bool:
    """Returns whether the input layer's aggregation is fused with the gather: sums and means of dense rows are."""
    without_own = task.residual == "linear" and task.aggregates != "mean"
    fused = not task.is_own and layer_cost.OPERATORS[task.model].input_widths > 0 and not without_own
    return fused and not graph.sparse_features


def _input_bytes(columns: Columns, volume: BatchVolume, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the bytes of features in a mini-batch, float64, shape (n_configs,)."""
    narrow = (columns["compute_dtype"] == "bfloat16") & ~np.bool_(graph.sparse_features or task.is_own)
    share = np.where(narrow, 0.5, 1.0)
    if aggregates_while_gathering(task, graph):
        return np.asarray(
            share * 4.0 * layer_cost.OPERATORS[task.model].input_widths * graph.num_features * volume.nodes[-2]
        )
    return np.asarray(share * volume.input_nodes * served_row_bytes(columns, task, graph))


def _layers(
    columns: Columns, volume: BatchVolume, task: Task, graph: GraphCharacteristics
) -> Iterator[layer_cost.LayerCost[Array]]:
    """Yields the layers, the input layer first; layer l computes the nodes that are seen after hop L - 1 - l.

    An input layer that reads a table has no edges.
    """
    depth = task.num_layers
    widths = [graph.num_features, *[task.hidden_channels] * (depth - 1), graph.num_classes]
    for layer in range(depth):
        hop = depth - 1 - layer
        edges = np.sum(volume.edges[: hop + 1], axis=0)
        edges = np.where(reads_table(columns), 0.0, edges) if layer == 0 else edges
        sources, destinations = volume.nodes[hop + 1], volume.nodes[hop]
        yield layer_cost.LayerCost(widths[layer], widths[layer + 1], sources, destinations, edges, layer == 0, hop == 0)


class Between(NamedTuple):
    """Cost of one layer's norm and residual connection.

    Attributes:
        flops: Multiplications and additions of the map to another width, float64, shape (n_configs,).
        read_values: Values that are read, float64, shape (n_configs,).
        kept_values: Values that backward needs, float64, shape (n_configs,).
        parameters: Number of weights.
    """

    flops: Array
    read_values: Array
    kept_values: Array
    parameters: int


def between_layers(task: Task, layer: layer_cost.LayerCost[Array], entries: Array | float) -> Between:
    """Returns the cost for a layer; the last has no norm, and the first no residual unless that is linear.

    Args:
        task: The model.
        layer: Its layer.
        entries: Stored entries of a row of its input.
    """
    rows, width_in, width_out, linear = layer.destinations, layer.width_in, layer.width_out, task.residual == "linear"
    flops, read, kept = (np.zeros_like(rows) for _ in range(3))
    parameters = 0
    if task.norm != "none" and not layer.last:
        read, kept = read + _NORM_READS[task.norm] * rows * width_out, kept + rows * width_out
        parameters += 2 * width_out
    if linear or (task.residual and not layer.first):
        read, kept = read + _RESIDUAL_READS * rows * width_out, kept + rows * width_out
        if linear or width_in != width_out:
            flops = flops + layer_cost.COUNTED_PASSES.of_update(layer) * 2.0 * rows * entries * width_out
            parameters += width_in * width_out
    return Between(flops, read, kept, parameters)


def _own_cost(
    columns: Columns, volume: BatchVolume, task: Task, graph: GraphCharacteristics, own: OwnModel
) -> ModelCost:
    """Returns the cost of a step of a user's model.

    If the model takes adjs, each layer is computed on its own block, otherwise on the whole mini-batch. Products are
    assumed to be over a layer's destinations, as most are, and bytes over its sources. An input layer that reads a
    table has one edge and two sources per destination.
    """
    extent, cost = _extent(columns, volume, own), own.cost
    forward = cost.node_bytes * extent.sources + cost.edge_bytes * extent.edges
    return ModelCost(
        gemm_flops=_PASSES * (cost.node_flops * extent.destinations + cost.edge_flops * extent.edges),
        spmm_bytes=_PASSES * (forward + cost.edge_reads * extent.edges),
        activation_bytes=forward,
        input_bytes=_input_bytes(columns, volume, task, graph),
        parameters=cost.parameters,
        narrow=columns["compute_dtype"] == "bfloat16",
    )


class _Extent(NamedTuple):
    """Nodes and edges that a forward pass computes on, summed over layers, each float64, shape (n_configs,)."""

    sources: Array
    destinations: Array
    edges: Array


def _extent(columns: Columns, volume: BatchVolume, own: OwnModel) -> _Extent:
    """Returns the extent of the mini-batches of `columns`, as `OwnCost` counts it."""
    if own.takes == "edge_index":
        return _Extent(volume.input_nodes, volume.input_nodes, volume.sampled_edges)
    depth, tabled = len(volume.edges), reads_table(columns)
    nodes, edges = np.zeros_like(volume.seeds), np.zeros_like(volume.seeds)
    for hop in range(depth):
        last = hop == depth - 1  # the input layer's
        sources, of_layer = volume.nodes[hop + 1], np.sum(volume.edges[: hop + 1], axis=0)
        nodes = nodes + np.where(last & tabled, 2 * volume.nodes[hop], sources)
        edges = edges + np.where(last & tabled, volume.nodes[hop], of_layer)
    return _Extent(nodes, np.asarray(np.sum(volume.nodes[:-1], axis=0)), edges)
