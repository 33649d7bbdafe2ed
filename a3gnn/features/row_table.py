"""`RowTable`: dense rows of several arrays, by address; and functions that copy or aggregate them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.row_kernels import copy_rows, locate, mean_rows, symmetric_weights, weigh_rows
from a3gnn.threads import pool

#: mean: mean of the in-neighbors, with the node's own row in further columns (GraphSAGE). sum: sum with the own row
#: (GIN). gcn: symmetrically normalized sum with the own row.
Aggregator = Literal["mean", "sum", "gcn"]
AGGREGATORS: tuple[Aggregator, ...] = ("mean", "sum", "gcn")


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """A list of dense rows, each identified by its address in one of several arrays.

    Attributes:
        addresses: Start of each row, int64, shape (num_rows,).
        row_like: An array of a row's length and stored dtype: float32, or uint16 for the bits of float16 and int16 for
            those of bfloat16. The kernels read no value of it.
        owners: The arrays behind the addresses; the table keeps them alive.
    """

    addresses: NDArray[np.int64]
    row_like: NDArray[Any]
    owners: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Self:
        """Returns the rows of `array` in order: a matrix of float32, float16, or the bits of bfloat16 as int16."""
        table = cls(np.empty(len(array), dtype=np.int64), row_like(array), (array,))
        locate(array.ctypes.data, array.strides[0], np.arange(len(array), dtype=np.int32), table.addresses)
        return table

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.row_like)


def row_like(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array of the length and stored dtype of a row of `array` (`RowTable.row_like`).

    Raises:
        ValueError: `array` is not a contiguous matrix.
    """
    if array.ndim != 2 or not array.flags.c_contiguous:
        raise ValueError(f"rows read by address need a contiguous matrix, got strides {array.strides}")
    return np.empty(array.shape[1], dtype=np.uint16 if array.dtype == np.float16 else array.dtype)


def input_width(aggregator: Aggregator | None, num_features: int) -> int:
    """Returns the columns of an input layer's input: 2 num_features for mean, which appends the own row."""
    return 2 * num_features if aggregator == "mean" else num_features


def gather(table: RowTable, out: NDArray[Any], column: int = 0) -> None:
    """Copies the first `len(out)` rows of `table` to `out`, float32 or the bits of bfloat16, starting at `column`."""
    kernel = partial(copy_rows, table.addresses, table.row_like, out, column)
    pool.in_chunks(kernel, len(out), pool.grain(1, table.row_like.nbytes))


def aggregate(
    aggregator: Aggregator,
    table: RowTable,
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    out: NDArray[Any],
) -> None:
    """Writes the aggregate of each destination's in-neighbors and own row to `out`.

    Args:
        aggregator: Name of the aggregation.
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
    """Writes each destination's weighted sum to `out`: `own` times its row plus `weights` times in-neighbors' rows.

    `weights` and `own` are float32, one per edge and per destination; other arguments are as for `aggregate`.
    """
    kernel = partial(weigh_rows, table.addresses, table.row_like, indptr, indices, weights, own, out)
    rows = len(out)
    pool.in_chunks(kernel, rows, pool.grain(rows, table.row_like.nbytes * (len(weights) + rows)))
