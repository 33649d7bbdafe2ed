"""Compiled kernels over sparse rows: widened, measured, copied. All release the GIL.

Rows are summed in a dense row of the matrix's width, and only the columns that occur are touched (Gustavson, 1978).
Each call fills rows `low` to `high` (exclusive) on one thread, and a row is summed in the order of its edges. So the
result is the same, bit for bit, for every split into ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.rows.intrinsics import widened
from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def widen(halves: NDArray[np.uint16], out: NDArray[np.float32]) -> None:
    """Copies `halves`, the bits of float16, to `out` as float32; both of one dimension."""
    for i in range(len(halves)):
        out[i] = widened(halves[i])


@njit(cache=True, nogil=True)
def row_lengths(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], where: NDArray[np.int32], out: NDArray[np.int64]
) -> None:
    """Writes the number of stored entries of row `ids[i]` to `out[where[i]]`, for every i."""
    for i in range(len(ids)):
        out[where[i]] = indptr[ids[i] + 1] - indptr[ids[i]]


@njit(cache=True, nogil=True)
def gather_csr(
    source: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]],
    ids: NDArray[np.int32],
    where: NDArray[np.int32],
    out: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]],
) -> None:
    """Copies row `ids[i]` of the CSR matrix `source` to row `where[i]` of the CSR matrix `out`, for every i.

    Both are (indptr, indices, data) with data of one dtype; the caller sets the indptr of `out`.
    """
    indptr, indices, data = source
    out_indptr, out_indices, out_data = out
    for i in range(len(ids)):
        to = out_indptr[where[i]]
        for e in range(indptr[ids[i]], indptr[ids[i] + 1]):
            out_indices[to] = indices[e]
            out_data[to] = data[e]
            to += 1


@njit(cache=True, nogil=True)
def count_entries(
    nodes: NDArray[np.int32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    width: int,
    apart: bool,
    counts: NDArray[np.int64],
    low: int,
    high: int,
) -> None:
    """Writes the number of entries in each destination's row after `sum_rows`.

    Args:
        nodes: The destinations' rows of the matrix.
        indptr: Start of each destination's in-edges.
        indices: The in-neighbors' rows of the matrix.
        starts: The matrix's indptr.
        columns: The matrix's column numbers.
        width: Number of columns of the matrix.
        apart: Whether a destination's own row goes to further columns instead of the sum.
        counts: int64, shape (num_dst,).
        low: First destination.
        high: One past the last destination.
    """
    seen = np.full(width, -1, dtype=np.int64)
    for i in range(low, high):
        own, count = nodes[i], 0
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(starts[indices[e]], starts[indices[e] + 1]):
                if seen[columns[k]] != i:
                    seen[columns[k]] = i
                    count += 1
        if apart:
            count += starts[own + 1] - starts[own]
        else:
            for k in range(starts[own], starts[own + 1]):
                count += seen[columns[k]] != i
        counts[i] = count


@njit(cache=True, nogil=True)
def sum_rows(
    nodes: NDArray[np.int32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    own_weights: NDArray[np.float32],
    matrix: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]],
    width: int,
    apart: bool,
    out: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]],
    low: int,
    high: int,
) -> None:
    """Writes each destination's weighted sum of rows, columns ascending, to its row of `out`.

    Args:
        nodes: As for `count_entries`.
        indptr: As for `count_entries`.
        indices: As for `count_entries`.
        weights: Per edge, float32.
        own_weights: Weight of each destination's own row, float32; not read if `apart`.
        matrix: indptr, column numbers and values, float32 or the bits of float16 as uint16.
        width: As for `count_entries`.
        apart: As for `count_entries`; the own row's columns then begin at `width`.
        out: Row starts, column numbers and values.
        low: First destination.
        high: One past the last destination.
    """
    starts, columns, values = matrix
    out_starts, out_columns, out_values = out
    seen, total = np.full(width, -1, dtype=np.int64), np.empty(width, dtype=np.float32)
    for i in range(low, high):
        own, begin = nodes[i], out_starts[i]
        end = begin
        # The own row comes last in the sum; if it is apart, it is not part of the sum and is copied below.
        for e in range(indptr[i], indptr[i + 1] + (0 if apart else 1)):
            is_own = e == indptr[i + 1]
            source = own if is_own else indices[e]
            weight = own_weights[i] if is_own else weights[e]
            for k in range(starts[source], starts[source + 1]):
                column = columns[k]
                if seen[column] != i:
                    seen[column] = i
                    total[column] = np.float32(0)
                    out_columns[end] = column
                    end += 1
                total[column] += weight * widened(values[k])
        out_columns[begin:end].sort()
        for k in range(begin, end):
            out_values[k] = total[out_columns[k]]
        if apart:
            for k in range(starts[own], starts[own + 1]):
                out_columns[end] = columns[k] + width
                out_values[end] = widened(values[k])
                end += 1
