"""Compiled kernels over CSR matrices: products with dense ones, transposition, making them. All release the GIL.

Each call works on a range of its output, on one thread. `a3gnn.threads.pool` splits the output. One call sums each row
in the order of the entries, so the split doesn't change a bit of the results. A pass over a sum adds four entries,
because a product is bound by reading rows of `dense` from the caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def multiply(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    dense: NDArray[Any],
    start: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes rows `low` to `high` of a CSR matrix times `dense`, plus `start`.

    Args:
        indptr: The matrix's, shape (n_rows + 1,).
        indices: The matrix's, shape (num_stored,).
        values: The matrix's, float32 or float64 like the arguments below, shape (num_stored,).
        dense: Shape (n_columns, width).
        start: Added to every row, shape (width,); if empty, the contents of `out` are added.
        out: Written, shape (n_rows, width).
        low: First row.
        high: Past the last row.
    """
    width = out.shape[1]
    for i in range(low, high):
        total, e, end = out[i], indptr[i], indptr[i + 1]
        for j in range(len(start)):
            total[j] = start[j]
        while e + 3 < end:
            a, b, c, d = dense[indices[e]], dense[indices[e + 1]], dense[indices[e + 2]], dense[indices[e + 3]]
            p, q, r, s = values[e], values[e + 1], values[e + 2], values[e + 3]
            for j in range(width):
                total[j] = (((total[j] + p * a[j]) + q * b[j]) + r * c[j]) + s * d[j]
            e += 4
        while e < end:
            row, value = dense[indices[e]], values[e]
            for j in range(width):
                total[j] += value * row[j]
            e += 1


@njit(cache=True, nogil=True)
def count_columns(
    indptr: NDArray[Any], indices: NDArray[Any], tile_rows: int, starts: NDArray[np.int64], low: int, high: int
) -> None:
    """Writes the start of each column's entries in tiles `low` to `high`, sorted by tile and then by column.

    Args:
        indptr: A CSR matrix's.
        indices: The matrix's.
        tile_rows: Rows of a tile; the last one may be shorter.
        starts: Written, shape (n_tiles, n_columns + 1); the last column holds the tile's end.
        low: First tile.
        high: Past the last tile.
    """
    rows = len(indptr) - 1
    for t in range(low, high):
        begin, places = indptr[t * tile_rows], starts[t]
        places[:] = 0
        for e in range(begin, indptr[min(rows, (t + 1) * tile_rows)]):
            places[indices[e] + 1] += 1
        places[0] = begin
        for c in range(1, len(places)):
            places[c] += places[c - 1]


@njit(cache=True, nogil=True)
def sort_tiles(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    tile_rows: int,
    starts: NDArray[np.int64],
    rows: NDArray[np.int32],
    sorted_values: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Sorts the entries of tiles `low` to `high` by column, and by row within a column.

    `starts` is the output of `count_columns`. `rows` and `sorted_values`, shape (num_stored,), are written.
    """
    for t in range(low, high):
        places = starts[t].copy()
        for i in range(t * tile_rows, min(len(indptr) - 1, (t + 1) * tile_rows)):
            for e in range(indptr[i], indptr[i + 1]):
                at = places[indices[e]]
                places[indices[e]] = at + 1
                rows[at] = i
                sorted_values[at] = values[e]


@njit(cache=True, nogil=True)
def count_entries(x: NDArray[Any], counts: NDArray[np.int64], low: int, high: int) -> None:
    """Writes how many entries of rows `low` to `high` of `x` are not 0."""
    for i in range(low, high):
        row, count = x[i], 0
        for j in range(len(row)):
            count += row[j] != 0
        counts[i] = count


@njit(cache=True, nogil=True)
def take_entries(
    x: NDArray[Any],
    bits: NDArray[Any],
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the columns and values of the entries of rows `low` to `high` of `x` that are not 0.

    It looks at 32 entries at once, which is most of the work where nearly all are 0.

    Args:
        x: Shape (n_rows, n_columns).
        bits: The same memory as unsigned integers.
        indptr: Start of each row's entries, shape (n_rows + 1,).
        indices: Written, shape (num_stored,).
        values: Written, shape (num_stored,).
        low: First row.
        high: Past the last row.
    """
    for i in range(low, high):
        row, words, at, end, j = x[i], bits[i], indptr[i], indptr[i + 1], 0
        while at < end and j < len(row):
            stop, some = min(j + 32, len(row)), words[j]
            if stop == j + 32:
                for k in range(1, 32):
                    some |= words[j + k]
            if some or stop != j + 32:
                for c in range(j, stop):
                    if row[c] != 0 and at < end:
                        indices[at] = c
                        values[at] = row[c]
                        at += 1
            j = stop
        for missing in range(at, end):  # another thread has changed the row since it was counted
            indices[missing] = 0
            values[missing] = 0
