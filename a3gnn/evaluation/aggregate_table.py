"""`aggregate_table`: the input layer's aggregation over all in-neighbors, computed once per graph."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import ConfigError, GraphError
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.features.row_kernels import count_entries, locate, sum_rows
from a3gnn.features.row_table import Aggregator, RowTable, aggregate, input_width, row_like, weigh
from a3gnn.features.stored_rows import SparseRows, bits
from a3gnn.features.tensors import slice_or_ids
from a3gnn.graphs.derived import noting_seconds, read_table, seconds_of_making, write_sparse_table, write_table
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.models.feature_rows import FeatureRows
from a3gnn.models.layers.aggregation import factors
from a3gnn.models.layers.block import LayerBlock
from a3gnn.search_values import MOST_TABLE_GROWTH
from a3gnn.storage.npy import content_hash
from a3gnn.threads import pool
from a3gnn.units import format_size

#: Bytes per edge of a sparse table at the peak: its end, its weight, and the weight's temporaries.
_SPARSE_EDGE_BYTES = 64
#: Bytes of a sparse table's entry: its column and its value.
_ENTRY_BYTES = 8
# Fewest rows of a sparse table per thread, because each range must clear a dense row of its own. Guess.
_GRAIN = 256
#: Bytes per edge of a dense table at the peak: its row's address and place, its weight, and the weight's temporaries.
_EDGE_BYTES = 64
#: A table of at most so many bytes is stored whole, because it then serves every seed, test and training. Guess.
_WHOLE_BYTES = 1 << 30
#: Errors of a folder that can't be written to, apart from a full disk.
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def aggregate_table(graph: Graph, aggregator: Aggregator, around: Neighborhoods) -> DenseFeatures | SparseFeatures:
    """Returns the table of `aggregator` as memory maps: float32, shape (num_nodes, input_width), CSR if features are.

    Rows are aggregated as in `a3gnn.features.row_table`, over all in-neighbors. For `mean`, a row holds the node's own
    features and the mean; `gcn` uses the whole graph's degrees. The table is stored beside the graph. The first call
    writes it in chunks, and notes the seconds.

    Args:
        graph: A graph on disk.
        aggregator: The aggregation of the input layer.
        around: Neighborhoods of the same graph. If its `on_chunk` raises an exception, no table is left.

    Raises:
        GraphError: The table is damaged or can't be written; the message contains the remedy.
        ConfigError: Features are sparse, and the table would take more than 4 times their bytes.
    """
    folder = _folder(graph, aggregator)
    if not folder.is_dir():
        _make(graph, aggregator, around)
    return read_table(graph, folder)


class AggregateRows:
    """Some rows of a table: of the stored table, stored for themselves, or computed as they are read.

    Args:
        compute: Returns the rows of ascending nodes, float32, shape (n, input_width).
        stored: The rows of `ids`; None computes.
        ids: Nodes, ascending; None if all nodes' rows are stored.
    """

    def __init__(
        self,
        compute: Callable[[NDArray[np.int32]], NDArray[np.float32]],
        stored: DenseFeatures | SparseFeatures | None = None,
        ids: NDArray[np.int32] | None = None,
    ) -> None:
        self._compute, self._ids = compute, ids
        self._stored = None if stored is None else FeatureRows(stored)

    def read(self, ids: NDArray[np.int32], device: torch.device) -> Tensor:
        """Returns the rows of ascending `ids`, float32, shape (n, input_width), on `device`."""
        if self._stored is None:
            return torch.from_numpy(self._compute(ids)).to(device)
        places = ids if self._ids is None else np.searchsorted(self._ids, ids).astype(np.int32)
        return self._stored.read(places, device)


def aggregate_rows(
    graph: Graph, aggregator: Aggregator, around: Neighborhoods, ids: NDArray[np.int32], *, keeps: bool
) -> AggregateRows | None:
    """Returns the rows `ids` of `aggregate_table`, with its bits; None if the graph is in RAM or its folder read-only.

    Where the whole table is large and few of its rows are needed, these get a folder of their own. Rows are computed
    as they are read if they don't fit on the disk; large ones must leave half of what is free. `graph` has dense
    features, `ids` ascend, and `keeps` stores rows that are not stored yet; see `aggregate_table`.

    Raises:
        GraphError: A stored table is damaged; the message contains the remedy.
    """
    if graph.folder is None:
        return None
    assert isinstance(graph.features, DenseFeatures)
    compute = partial(_computed, graph, graph.features, aggregator, around)
    whole, some = _folder(graph, aggregator), _folder(graph, aggregator, ids)
    if whole.is_dir():
        return AggregateRows(compute, read_table(graph, whole))
    if some.is_dir():
        return AggregateRows(compute, read_table(graph, some, len(ids)), ids)
    try:
        if _table_bytes(graph, aggregator, graph.num_nodes) <= _WHOLE_BYTES or 2 * len(ids) > graph.num_nodes:
            if keeps and _has_room(graph, aggregator, graph.num_nodes):
                return AggregateRows(compute, aggregate_table(graph, aggregator, around))
        elif keeps and _has_room(graph, aggregator, len(ids)):
            _make(graph, aggregator, around, ids)
            return AggregateRows(compute, read_table(graph, some, len(ids)), ids)
    except GraphError as error:
        if not isinstance(error.__cause__, OSError):
            raise  # it is damaged, or was not computed
        if error.__cause__.errno in _READ_ONLY:
            return None
    return AggregateRows(compute)


def _has_room(graph: Graph, aggregator: Aggregator, rows: int) -> bool:
    """Returns whether so many rows are few, or would take at most half of the free disk beside the graph."""
    assert graph.folder is not None
    needed = _table_bytes(graph, aggregator, rows)
    return needed <= _WHOLE_BYTES or 2 * needed <= shutil.disk_usage(graph.folder).free


def _table_bytes(graph: Graph, aggregator: Aggregator, rows: int) -> int:
    return 4 * rows * input_width(aggregator, graph.num_features)


def table_seconds(graph: Graph, aggregator: Aggregator, around: Neighborhoods) -> float:
    """Returns the seconds to make the table; afterwards the table is stored beside the graph and verified.

    For an existing table, it returns the noted seconds. If none were noted, it makes the table again. For arguments and
    errors see `aggregate_table`.
    """
    aggregate_table(graph, aggregator, around)
    return seconds_of_making(_folder(graph, aggregator), partial(_make, graph, aggregator, around))


def row_starts(
    graph: Graph, features: SparseFeatures, aggregator: Aggregator, around: Neighborhoods
) -> NDArray[np.int64]:
    """Returns the table's row pointers, int64, shape (num_nodes + 1,); counts entries without computing them.

    Raises:
        ConfigError: The table would take more than 4 times the features' bytes.
    """
    starts = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    csr = SparseRows.of(features).csr
    matrix = (csr.indptr, csr.indices)
    most, taken = MOST_TABLE_GROWTH * features.nbytes, starts.nbytes
    for ids in around.chunks(np.arange(graph.num_nodes, dtype=np.int32), 32, _SPARSE_EDGE_BYTES):
        counts = starts[ids[0] + 1 : ids[-1] + 2]
        block = (ids, *graph.in_edges(ids))
        kernel = partial(count_entries, block, matrix, features.shape[1], aggregator == "mean", counts)
        pool.in_chunks(kernel, len(ids), _GRAIN)
        taken += _ENTRY_BYTES * int(counts.sum())
        if taken > most:
            raise ConfigError(
                f"input_aggregation full needs a table of at most {format_size(most)} ({MOST_TABLE_GROWTH} times the "
                f"features of {graph.name}), got {format_size(taken)} for the first {ids[-1] + 1:,} of "
                f"{graph.num_nodes:,} rows; use sampled"
            )
    return np.cumsum(starts, out=starts)


def sparse_pieces(
    graph: Graph,
    features: SparseFeatures,
    aggregator: Aggregator,
    around: Neighborhoods,
    starts: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """Yields the columns and values of the table's rows in order; `starts` is from `row_starts`."""
    csr = SparseRows.of(features).csr
    matrix = (csr.indptr, csr.indices, bits(csr.data))
    degrees = around.degrees() if aggregator == "gcn" else None
    # Twice, because one piece is held while it is written.
    taken = 2 * _ENTRY_BYTES * starts + _SPARSE_EDGE_BYTES * graph.indptr
    for ids in around.chunks(np.arange(graph.num_nodes, dtype=np.int32), 32, 1, taken):
        first, last = int(ids[0]), int(ids[-1]) + 1
        indptr, indices = graph.in_edges(ids)
        run = slice(first, last)
        block = LayerBlock(torch.from_numpy(indptr), torch.from_numpy(indices), graph.num_nodes, run, degrees)
        own = starts[first : last + 1] - starts[first]
        out = (own, np.empty(own[-1], dtype=np.int32), np.empty(own[-1], dtype=np.float32))
        edges = (ids, indptr, indices)
        kernel = partial(sum_rows, edges, *factors(aggregator, block), matrix, features.shape[1])
        pool.in_chunks(partial(kernel, aggregator == "mean", out), len(ids), _GRAIN)
        yield out[1], out[2]


def _folder(graph: Graph, aggregator: Aggregator, ids: NDArray[np.int32] | None = None) -> Path:
    """Returns the folder of the table's rows `ids`; None for all rows."""
    return graph.derived(f"table-{aggregator}" + ("" if ids is None else f"-of-{len(ids)}-{content_hash(ids)[:16]}"))


def _make(graph: Graph, aggregator: Aggregator, around: Neighborhoods, ids: NDArray[np.int32] | None = None) -> None:
    """Writes the table's rows `ids`, which ascend; None for all rows."""
    folder, columns = _folder(graph, aggregator, ids), input_width(aggregator, graph.num_features)
    with noting_seconds(graph, folder):
        if isinstance(graph.features, DenseFeatures):
            every = np.arange(graph.num_nodes, dtype=np.int32) if ids is None else ids
            pieces = _pieces(graph, graph.features, aggregator, around, every)
            write_table(graph, folder, columns, pieces, np.float32, len(every))
        else:
            starts = row_starts(graph, graph.features, aggregator, around)
            sparse = sparse_pieces(graph, graph.features, aggregator, around, starts)
            write_sparse_table(graph, folder, columns, starts, sparse)


def _computed(
    graph: Graph, features: DenseFeatures, aggregator: Aggregator, around: Neighborhoods, ids: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Returns the table's rows of `ids`, which ascend."""
    out, done = np.empty((len(ids), input_width(aggregator, features.shape[1])), dtype=np.float32), 0
    for piece in _pieces(graph, features, aggregator, around, ids):
        out[done : done + len(piece)] = piece
        done += len(piece)
    return out


def _pieces(
    graph: Graph, features: DenseFeatures, aggregator: Aggregator, around: Neighborhoods, nodes: NDArray[np.int32]
) -> Iterator[NDArray[np.float32]]:
    """Yields the rows of `nodes` of a dense table, in order."""
    columns = input_width(aggregator, graph.num_features)
    degrees = around.degrees() if aggregator == "gcn" else None
    for ids in around.chunks(nodes, 2 * 4 * columns + 16, _EDGE_BYTES):  # twice: one piece is held while it is written
        indptr, indices = graph.in_edges(ids)
        out = np.empty((len(ids), columns), dtype=np.float32)
        table = _rows(features.array, np.concatenate([ids, indices]))
        places = np.arange(len(ids), len(ids) + len(indices), dtype=np.int32)
        if aggregator == "gcn":
            edges, dst = (torch.from_numpy(indptr), torch.from_numpy(indices)), slice_or_ids(ids)
            block = LayerBlock(*edges, graph.num_nodes, dst, degrees)
            weigh(table, indptr, places, *factors(aggregator, block), out)
        else:
            aggregate(aggregator, table, indptr, places, out)
        yield out


def _rows(features: NDArray[np.floating], ids: NDArray[np.int32]) -> RowTable:
    """Returns rows `ids` of `features` by address."""
    table = RowTable(np.empty(len(ids), dtype=np.int64), row_like(features), (features,))
    locate(features.ctypes.data, features.strides[0], ids, table.addresses)
    return table
