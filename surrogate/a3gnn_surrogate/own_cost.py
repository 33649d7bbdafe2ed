"""What a training step of a user's model costs, from the cost per node and edge that its operations were counted at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from a3gnn.task import OwnModel
from a3gnn_surrogate.columns import Array, Columns
from a3gnn_surrogate.rows import reads_table
from a3gnn_surrogate.volume import BatchVolume

#: Passes of training over those of forward: backward costs two.
_PASSES = 3


class OwnStep(NamedTuple):
    """One training step of each configuration, each float64, shape (n_configs,).

    Attributes:
        flops: Multiplications and additions of dense products.
        moved_bytes: Bytes that operations write, and sparse products read.
        activation_bytes: What the forward pass writes.
    """

    flops: Array
    moved_bytes: Array
    activation_bytes: Array


def own_step(columns: Columns, volume: BatchVolume, own: OwnModel) -> OwnStep:
    """Returns the cost of a step: layers of a model that takes adjs are computed on their own blocks, others on all.

    Products are taken to be of a layer's destinations, as most are, and bytes to be of its sources. An input layer that
    reads a table has one edge per destination, and two sources.
    """
    extent = _extent(columns, volume, own)
    cost = own.cost
    forward = cost.node_bytes * extent.sources + cost.edge_bytes * extent.edges
    flops = cost.node_flops * extent.destinations + cost.edge_flops * extent.edges
    moved = forward + cost.edge_reads * extent.edges
    return OwnStep(_PASSES * flops, _PASSES * moved, forward)


class _Extent(NamedTuple):
    """What a forward pass is computed on, summed over the layers, each float64, shape (n_configs,)."""

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
