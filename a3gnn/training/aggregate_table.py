"""`aggregate_table`: what a model's input layer makes of each whole in-neighbourhood, once per graph."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.features.rows.aggregate import Aggregator, weigh
from a3gnn.features.rows.kernels import locate
from a3gnn.features.rows.table import RowTable, row_like
from a3gnn.graphs.derived import read_aggregates, write_aggregates
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.training.chunks import in_edges
from a3gnn.training.layers.aggregation import factors
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.neighbourhoods import Neighbourhoods

#: Bytes per edge at the peak: its row's address and its place, its weight, and what computing that takes.
_EDGE_BYTES = 64
#: Why a folder takes no files, other than for want of room.
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def aggregate_table(graph: Graph, aggregator: Aggregator, around: Neighbourhoods) -> NDArray[np.float32] | None:
    """Returns the table of `aggregator` as a memory map, float32, shape (num_nodes, num_features).

    `mean` is without the node's own row, which its layer reads from the features; `sum` and `gcn` are as
    `a3gnn.features.rows.aggregate` has them. The table lies beside the graph, where a first call writes it in chunks.

    Args:
        graph: Its features are dense.
        aggregator: The rule.
        around: Of the same graph; what it raises before a chunk leaves no table.

    Returns:
        The table, or None where none can be kept: the graph is in RAM, or its folder takes no files.

    Raises:
        GraphError: The table is damaged, or the disk is full; the message says what to do.
    """
    if graph.folder is None:
        return None
    folder = graph.derived(f"aggregates-{aggregator}")
    if not folder.is_dir():
        try:
            write_aggregates(graph, folder, graph.num_features, _pieces(graph, aggregator, around))
        except GraphError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _READ_ONLY:
                return None
            raise
    return read_aggregates(graph, folder)


def _pieces(graph: Graph, aggregator: Aggregator, around: Neighbourhoods) -> Iterator[NDArray[np.float32]]:
    """Yields the table's rows in order."""
    assert isinstance(graph.features, DenseFeatures)
    features = graph.features.array
    degrees = around.degrees() if aggregator == "gcn" else None
    every = np.arange(graph.num_nodes, dtype=np.int32)
    for ids in around.chunks(every, 4 * graph.num_features + 16, _EDGE_BYTES):
        indptr, indices = in_edges(graph, ids)
        run = slice(int(ids[0]), int(ids[-1]) + 1)
        block = LayerBlock(torch.from_numpy(indptr), torch.from_numpy(indices), graph.num_nodes, run, degrees)
        weights, own = factors(aggregator, block)
        if aggregator == "mean":
            own = np.zeros_like(own)
        out = np.empty((len(ids), graph.num_features), dtype=np.float32)
        places = np.arange(len(ids), len(ids) + len(indices), dtype=np.int32)
        weigh(_rows(features, np.concatenate([ids, indices])), indptr, places, weights, own, out)
        yield out


def _rows(features: NDArray[np.floating], ids: NDArray[np.int32]) -> RowTable:
    """Returns rows `ids` of `features` by address."""
    table = RowTable(np.empty(len(ids), dtype=np.int64), row_like(features), (features,))
    locate(features.ctypes.data, features.strides[0], ids, table.addresses)
    return table
