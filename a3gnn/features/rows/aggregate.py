"""Rows copied, or aggregated by destination while they are read, for a model's input layer."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.rows.kernels import copy_rows, mean_rows, symmetric_weights, weigh_rows
from a3gnn.features.rows.table import RowTable
from a3gnn.threads import pool

#: mean: of the in-neighbours, with the node's own row in further columns (GraphSAGE); sum: own row included (GIN); gcn:
#: the symmetrically normalised sum, own row included.
Aggregator = Literal["mean", "sum", "gcn"]
AGGREGATORS: tuple[Aggregator, ...] = ("mean", "sum", "gcn")


def input_width(aggregator: Aggregator | None, num_features: int) -> int:
    """Returns the columns of an input layer's input: 2 num_features for mean, which keeps the own row beside it."""
    return 2 * num_features if aggregator == "mean" else num_features


def gather(table: RowTable, out: NDArray[Any], column: int = 0) -> None:
    """Copies the first `len(out)` rows of `table` to `out`, float32 or the bits of bfloat16, from `column` on."""
    kernel = partial(copy_rows, table.addresses, table.row_like, out, column)
    pool.in_chunks(kernel, len(out), pool.grain(1, table.row_like.nbytes))


def aggregate(
    aggregator: Aggregator,
    table: RowTable,
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    out: NDArray[Any],
) -> None:
    """Writes the aggregate of each destination's in-neighbours and own row to `out`.

    Args:
        aggregator: How rows are combined.
        table: Rows of the sources; destination i is source i.
        indptr: int32, shape (num_dst + 1,).
        indices: int32, shape (num_edges,), below len(table).
        out: float32 or the bits of bfloat16 as int16, shape (num_dst, input_width).
    """
    rows, edges = len(out), int(indptr[len(out)])
    if aggregator == "mean":
        kernel = partial(mean_rows, table.addresses, table.row_like, indptr, indices, out)
        pool.in_chunks(kernel, rows, pool.grain(rows, table.row_like.nbytes * (edges + rows)))
        gather(table, out, table.width)
        return
    weights, own = np.ones(edges, dtype=np.float32), np.ones(rows, dtype=np.float32)
    if aggregator == "gcn":
        symmetric_weights(indptr, indices, weights, own)
    weigh(table, indptr, indices, weights, own, out)


def weigh(
    table: RowTable,
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: NDArray[np.float32],
    out: NDArray[Any],
) -> None:
    """Writes each destination's weighted sum, `own` times its row plus `weights` times its in-neighbours', to `out`.

    Args:
        table: As for `aggregate`.
        indptr: As for `aggregate`.
        indices: As for `aggregate`.
        weights: Per edge, float32, shape (num_edges,).
        own: Per destination, float32, shape (num_dst,).
        out: float32 or the bits of bfloat16 as int16, shape (num_dst, table.width).
    """
    kernel = partial(weigh_rows, table.addresses, table.row_like, indptr, indices, weights, own, out)
    rows = len(out)
    pool.in_chunks(kernel, rows, pool.grain(rows, table.row_like.nbytes * (len(weights) + rows)))
