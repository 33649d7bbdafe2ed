"""Kernels that copy, widen and sum rows, dense ones and sparse ones.

Each call fills rows `low` to `high` (exclusive) of its output on one thread; `a3gnn.threads.pool` splits the output
into such ranges. A destination adds its rows in the order of its edges, four per pass over its sum, and prefetches the
next four meanwhile. One call sums each output row, so the result is the same, bit for bit, for every split into ranges.

`row_like` stands for a row's length and dtype: an array of that length, float32, or uint16 for the bits of float16 and
int16 for those of bfloat16. `out` is float32, or int16 for the bits of bfloat16; sums stay float32 until they are
complete.

Sparse rows are summed in a dense row of the matrix's width, and only the columns that occur are touched (Gustavson,
1978).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numba import carray, types
from numba.extending import overload
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import narrowed, pointer, prefetch_at, widened

InEdges: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]

# Bytes of a cache line on x86-64 and most arm64 processors.
_LINE = 64


def sum_of(row: Any, scratch: Any) -> Any:
    """Returns the memory for an output row's sum: a float32 or float64 row itself, else `scratch`, float32.

    The result is as long as `scratch`. For compiled code only.
    """
    raise NotImplementedError


def settle(total: Any, row: Any) -> None:
    """Writes `total`, the result of `sum_of` for `row`, to `row`, rounded; for compiled code only."""
    raise NotImplementedError


@overload(sum_of, inline="always")  # numba carries no types
def _sum_of(row: Any, scratch: Any) -> Callable[..., Any]:
    # numba compares the parameters of the returned function with those of this one, annotations included.
    def itself(row: Any, scratch: Any) -> Any:
        return row[: len(scratch)]

    def apart(row: Any, scratch: Any) -> Any:
        return scratch

    return itself if row.dtype in (types.float32, types.float64) else apart


@overload(settle, inline="always")
def _settle(total: Any, row: Any) -> Callable[..., None]:
    def rounded(total: Any, row: Any) -> None:
        for j in range(len(total)):
            row[j] = narrowed(total[j], row)

    def as_it_is(total: Any, row: Any) -> None:
        pass

    return as_it_is if row.dtype in (types.float32, types.float64) else rounded


@njit(cache=True, nogil=True)
def locate(base: int, row_bytes: int, ids: NDArray[np.int32], addresses: NDArray[np.int64]) -> None:
    """Writes the addresses of rows `ids` of an array at address `base`, with rows `row_bytes` apart."""
    for i in range(len(ids)):
        addresses[i] = base + ids[i] * row_bytes


@njit(cache=True, nogil=True)
def copy_rows(
    addresses: NDArray[np.int64], row_like: NDArray[Any], out: NDArray[Any], column: int, low: int, high: int
) -> None:
    """Copies rows `low` to `high` to `out`, starting at `column`."""
    width = len(row_like)
    for i in range(low, high):
        row, target = carray(pointer(addresses[i]), (width,), row_like.dtype), out[i][column:]
        for j in range(width):
            target[j] = narrowed(widened(row[j]), target)


@njit(cache=True, nogil=True)
def mean_rows(
    addresses: NDArray[np.int64],
    row_like: NDArray[Any],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the mean of each destination's in-neighbors to the first columns of `out`; 0 without in-neighbors."""
    width, last = len(row_like), indptr[high]
    scratch = np.empty(width, dtype=np.float32)
    for i in range(low, high):
        total, e, end = sum_of(out[i], scratch), indptr[i], indptr[i + 1]
        if e == end:
            total[:] = np.float32(0)
            settle(total, out[i])
            continue
        first = carray(pointer(addresses[indices[e]]), (width,), row_like.dtype)
        for j in range(width):
            total[j] = widened(first[j])
        e += 1
        while e + 3 < end:
            if e + 7 < last:
                _prefetch_rows(addresses, indices, e + 4, width * row_like.itemsize)
            a = carray(pointer(addresses[indices[e]]), (width,), row_like.dtype)
            b = carray(pointer(addresses[indices[e + 1]]), (width,), row_like.dtype)
            c = carray(pointer(addresses[indices[e + 2]]), (width,), row_like.dtype)
            d = carray(pointer(addresses[indices[e + 3]]), (width,), row_like.dtype)
            for j in range(width):
                total[j] = (((total[j] + widened(a[j])) + widened(b[j])) + widened(c[j])) + widened(d[j])
            e += 4
        while e < end:
            row = carray(pointer(addresses[indices[e]]), (width,), row_like.dtype)
            for j in range(width):
                total[j] += widened(row[j])
            e += 1
        share = np.float32(1) / np.float32(end - indptr[i])
        for j in range(width):
            total[j] *= share
        settle(total, out[i])


@njit(cache=True, nogil=True)
def weigh_rows(
    addresses: NDArray[np.int64],
    row_like: NDArray[Any],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: NDArray[np.float32],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes `own[i] * row i + sum over edges e of weights[e] * row indices[e]` to row i of `out`."""
    width, last = len(row_like), indptr[high]
    scratch = np.empty(width, dtype=np.float32)
    for i in range(low, high):
        total, e, end = sum_of(out[i], scratch), indptr[i], indptr[i + 1]
        row = carray(pointer(addresses[i]), (width,), row_like.dtype)
        for j in range(width):
            total[j] = own[i] * widened(row[j])
        while e + 3 < end:
            if e + 7 < last:
                _prefetch_rows(addresses, indices, e + 4, width * row_like.itemsize)
            a = carray(pointer(addresses[indices[e]]), (width,), row_like.dtype)
            b = carray(pointer(addresses[indices[e + 1]]), (width,), row_like.dtype)
            c = carray(pointer(addresses[indices[e + 2]]), (width,), row_like.dtype)
            d = carray(pointer(addresses[indices[e + 3]]), (width,), row_like.dtype)
            p, q, r, s = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
            for j in range(width):
                some = total[j] + p * widened(a[j])
                total[j] = ((some + q * widened(b[j])) + r * widened(c[j])) + s * widened(d[j])
            e += 4
        while e < end:
            row = carray(pointer(addresses[indices[e]]), (width,), row_like.dtype)
            weight = weights[e]
            for j in range(width):
                total[j] += weight * widened(row[j])
            e += 1
        settle(total, out[i])


@njit(cache=True, nogil=True, inline="always")
def prefetch_row(address: int, row_bytes: int) -> None:
    """Prefetches the `row_bytes` bytes from `address` on."""
    for offset in range(0, row_bytes, _LINE):
        prefetch_at(address + offset)


@njit(cache=True, nogil=True, inline="always")
def _prefetch_rows(addresses: NDArray[np.int64], indices: NDArray[np.int32], edge: int, row_bytes: int) -> None:
    """Prefetches the source rows of edges `edge` to `edge + 3`."""
    for e in range(edge, edge + 4):
        prefetch_row(addresses[indices[e]], row_bytes)


@njit(cache=True, nogil=True)
def symmetric_weights(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], weights: NDArray[np.float32], own: NDArray[np.float32]
) -> None:
    """Writes GCN's weights of a block's edges and self loops: 1 / sqrt(d_source d_destination).

    A node's degree d is one, for its self loop, plus its sampled in-neighbors other than itself. Nodes beyond the rows
    of `indptr` have no sampled in-neighbors. An edge from a node to itself weighs 0, because the self loop replaces
    it.
    """
    rows = len(own)
    scale = np.empty(rows, dtype=np.float32)
    for i in range(rows):
        degree = 1
        for e in range(indptr[i], indptr[i + 1]):
            degree += indices[e] != i
        scale[i] = np.float32(1) / np.sqrt(np.float32(degree))
        own[i] = scale[i] * scale[i]
    for i in range(rows):
        for e in range(indptr[i], indptr[i + 1]):
            source = indices[e]
            if source == i:
                weights[e] = np.float32(0)
            else:
                weights[e] = scale[i] * (scale[source] if source < rows else np.float32(1))


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
    block: InEdges,
    matrix: tuple[NDArray[np.int64], NDArray[np.int32]],
    width: int,
    apart: bool,
    counts: NDArray[np.int64],
    low: int,
    high: int,
) -> None:
    """Writes the number of entries in each destination's row after `sum_rows`.

    Args:
        block: The destinations' rows of the matrix, the start of each one's in-edges, and the in-neighbors' rows.
        matrix: indptr and column numbers.
        width: Number of columns of the matrix.
        apart: Whether a destination's own row goes to further columns instead of the sum.
        counts: int64, shape (num_dst,).
        low: First destination.
        high: One past the last destination.
    """
    (nodes, indptr, indices), (starts, columns) = block, matrix
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
    block: InEdges,
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
        block: As for `count_entries`.
        weights: Per edge, float32.
        own_weights: Weight of each destination's own row, float32; not read if `apart`.
        matrix: indptr, column numbers and values, float32 or the bits of float16 as uint16.
        width: As for `count_entries`.
        apart: As for `count_entries`; the own row's columns then begin at `width`.
        out: Row starts, column numbers and values.
        low: First destination.
        high: One past the last destination.
    """
    (nodes, indptr, indices), (starts, columns, values) = block, matrix
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
