"""The rows of a sparse table: whole in-neighbourhoods of sparse features, summed into CSR."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import ConfigError
from a3gnn.features.rows.aggregate import Aggregator
from a3gnn.features.rows.sparse_sum_kernels import count_entries, sum_rows
from a3gnn.features.rows.stored import SparseRows, bits
from a3gnn.graphs.features import SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.search_values import MOST_TABLE_GROWTH
from a3gnn.threads import pool
from a3gnn.training.chunks import in_edges
from a3gnn.training.layers.aggregation import factors
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.neighbourhoods import Neighbourhoods
from a3gnn.units import format_size

#: Bytes per edge at the peak: its end, its weight, and what computing that takes.
_EDGE_BYTES = 64
#: Bytes of an entry: its column and its value.
_ENTRY_BYTES = 8
# Rows that are too few to share: each range has a dense row of its own to clear. Guess.
_GRAIN = 256


def row_starts(
    graph: Graph, features: SparseFeatures, aggregator: Aggregator, around: Neighbourhoods
) -> NDArray[np.int64]:
    """Returns where the table's rows begin, int64, shape (num_nodes + 1,): its entries are counted, not computed.

    Raises:
        ConfigError: The table would take more than 4 times the features' bytes.
    """
    starts = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    matrix = SparseRows.of(features).csr
    most, taken = MOST_TABLE_GROWTH * features.nbytes, starts.nbytes
    for ids in around.chunks(np.arange(graph.num_nodes, dtype=np.int32), 32, _EDGE_BYTES):
        counts = starts[ids[0] + 1 : ids[-1] + 2]
        kernel = partial(count_entries, ids, *in_edges(graph, ids), matrix.indptr, matrix.indices, features.shape[1])
        pool.in_chunks(partial(kernel, aggregator == "mean", counts), len(ids), _GRAIN)
        taken += _ENTRY_BYTES * int(counts.sum())
        if taken > most:
            raise ConfigError(
                f"input_aggregation full needs a table of at most {MOST_TABLE_GROWTH} times the bytes of the features "
                f"({format_size(most)} of {graph.name}), got {format_size(taken)} for the first {ids[-1] + 1:,} of "
                f"{graph.num_nodes:,} rows; use sampled"
            )
    return np.cumsum(starts, out=starts)


def sparse_pieces(
    graph: Graph,
    features: SparseFeatures,
    aggregator: Aggregator,
    around: Neighbourhoods,
    starts: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """Yields the columns and values of the table's rows in order, as `row_starts` has counted them."""
    csr = SparseRows.of(features).csr
    matrix = (csr.indptr, csr.indices, bits(csr.data))
    degrees = around.degrees() if aggregator == "gcn" else None
    taken = 2 * _ENTRY_BYTES * starts + _EDGE_BYTES * graph.indptr  # twice: one piece is held while it is written
    for ids in around.chunks(np.arange(graph.num_nodes, dtype=np.int32), 32, 1, taken):
        first, last = int(ids[0]), int(ids[-1]) + 1
        indptr, indices = in_edges(graph, ids)
        run = slice(first, last)
        block = LayerBlock(torch.from_numpy(indptr), torch.from_numpy(indices), graph.num_nodes, run, degrees)
        own = starts[first : last + 1] - starts[first]
        out = (own, np.empty(own[-1], dtype=np.int32), np.empty(own[-1], dtype=np.float32))
        kernel = partial(sum_rows, ids, indptr, indices, *factors(aggregator, block), matrix, features.shape[1])
        pool.in_chunks(partial(kernel, aggregator == "mean", out), len(ids), _GRAIN)
        yield out[1], out[2]
