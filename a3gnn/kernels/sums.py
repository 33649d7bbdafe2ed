"""Compiled kernels that sum rows over edges, and take their maxima; with gradients. All release the GIL.

Each call works on rows `low` to `high` of its output, on one thread. `a3gnn.threads.pool` splits the output; the split
doesn't change a bit of the results. Rows are float32 or float64, or int16 for the bits of bfloat16; all else has the
dtype of the sums, float32 or float64.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.row_kernels import prefetch_row, settle, sum_of
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import widened

Ints: TypeAlias = NDArray[np.int32]
#: Starts of rows, shape (n_rows + 1,), each edge's other end, and its slot: its place in arrays over edges. No slots
#: stand for equal places. Rows are targets, or sources.
Csr: TypeAlias = tuple[Ints, Ints, Ints]
#: Edges between the current one and the one whose row is prefetched. Guess.
AHEAD = 4

_ZERO = np.float32(0)


@njit(cache=True, nogil=True)
def sum_rows(
    csr: Csr,
    weights: NDArray[Any],
    scales: tuple[NDArray[Any], NDArray[Any]],
    x: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes each target's weighted sum of rows.

    Args:
        csr: The edges.
        weights: Each slot's weight, or empty.
        scales: Each source's and each target's factor, or empty.
        x: The sources' rows, shape (num_src, width).
        out: Written, shape (num_dst, width).
        low: First row.
        high: Past the last row.
    """
    (indptr, indices, slots), (scale, own) = csr, scales
    width, last, one = out.shape[1], indptr[high], weights.dtype.type(1)
    # Factors are read here: a function of the arrays, inlined too, took two thirds of the time, counting references.
    weighted, placed, scaled = len(weights) > 0, len(slots) > 0, len(scale) > 0
    base, row_bytes = x.ctypes.data, x.shape[1] * x.itemsize
    scratch = np.empty(width, dtype=np.float32)
    for i in range(low, high):
        total, e, end = sum_of(out[i], scratch), indptr[i], indptr[i + 1]
        for j in range(width):
            total[j] = 0
        while e + 3 < end:
            for ahead in range(e + 4, min(e + 8, last)):
                prefetch_row(base + indices[ahead] * row_bytes, row_bytes)
            a, b, c, d = x[indices[e]], x[indices[e + 1]], x[indices[e + 2]], x[indices[e + 3]]
            p = weights[slots[e] if placed else e] if weighted else one
            q = weights[slots[e + 1] if placed else e + 1] if weighted else one
            r = weights[slots[e + 2] if placed else e + 2] if weighted else one
            s = weights[slots[e + 3] if placed else e + 3] if weighted else one
            if scaled:
                p, q = p * scale[indices[e]], q * scale[indices[e + 1]]
                r, s = r * scale[indices[e + 2]], s * scale[indices[e + 3]]
            for j in range(width):
                some = total[j] + p * widened(a[j])
                total[j] = ((some + q * widened(b[j])) + r * widened(c[j])) + s * widened(d[j])
            e += 4
        while e < end:
            row, factor = x[indices[e]], weights[slots[e] if placed else e] if weighted else one
            if scaled:
                factor = factor * scale[indices[e]]
            for j in range(width):
                total[j] += factor * widened(row[j])
            e += 1
        if len(own):
            factor = own[i]
            for j in range(width):
                total[j] *= factor
        settle(total, out[i])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """Returns the inner product; the compiler chooses the order of the sum, which is the same in every call."""
    total = widened(b.dtype.type(0))
    for j in range(len(a)):
        total += widened(a[j]) * widened(b[j])
    return total


@njit(cache=True, nogil=True)
def edge_dots(
    csr: Csr,
    scales: tuple[NDArray[Any], NDArray[Any]],
    grad: NDArray[Any],
    x: NDArray[Any],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient of `sum_rows` by the weights of the edges of targets `low` to `high`, at their slots."""
    (indptr, indices, slots), (scale, own) = csr, scales
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            source = indices[e]
            change = dot(grad[i], x[source])
            if len(scale):
                change *= scale[source]
            if len(own):
                change *= own[i]
            out[slots[e] if len(slots) else e] = change


@njit(cache=True, nogil=True)
def max_rows(csr: Csr, x: NDArray[Any], out: NDArray[Any], low: int, high: int) -> None:
    """Writes each target's columnwise maximum over its in-neighbors' rows; 0 without in-neighbors, and NaN stays."""
    indptr, indices, _ = csr
    for i in range(low, high):
        best, begin, end = out[i], indptr[i], indptr[i + 1]
        if begin == end:
            best[:] = 0
            continue
        first = x[indices[begin]]
        for j in range(len(best)):
            best[j] = first[j]
        for e in range(begin + 1, end):
            row = x[indices[e]]
            for j in range(len(best)):
                value = row[j]
                best[j] = value if value > best[j] or value != value else best[j]


@njit(cache=True, nogil=True)
def share_among_ties(
    csr: Csr, x: NDArray[Any], best: NDArray[Any], grad: NDArray[Any], out: NDArray[Any], low: int, high: int
) -> None:
    """Writes each maximum's gradient, divided by the number of its equals.

    As torch's `scatter_reduce`, on which PyG's maximum rests, it also counts the 0 that was there before.
    """
    indptr, indices, _ = csr
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for i in range(low, high):
        row, top = out[i], best[i]
        for j in range(len(row)):
            row[j] = one if top[j] == zero else zero
        for e in range(indptr[i], indptr[i + 1]):
            values = x[indices[e]]
            for j in range(len(row)):
                row[j] += one if values[j] == top[j] else zero
        for j in range(len(row)):
            row[j] = grad[i, j] / row[j]


@njit(cache=True, nogil=True)
def collect_from_maxima(
    by_source: Csr, x: NDArray[Any], best: NDArray[Any], shared: NDArray[Any], out: NDArray[Any], low: int, high: int
) -> None:
    """Writes the sources' gradient: the shares of the maxima that they are equal to."""
    starts, targets, _ = by_source
    zero = x.dtype.type(0)
    for s in range(low, high):
        total, row = out[s], x[s]
        total[:] = 0
        for k in range(starts[s], starts[s + 1]):
            top, given = best[targets[k]], shared[targets[k]]
            for j in range(len(total)):
                total[j] += given[j] if row[j] == top[j] else zero


@njit(cache=True, nogil=True)
def collect(
    grad: NDArray[Any],
    own_column: int,
    own: NDArray[np.float32],
    weights: NDArray[np.float32],
    by_source: Csr,
    activated: tuple[NDArray[Any], np.float32],
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient of sources `low` to `high` from the gradient of the destinations' aggregates.

    Args:
        grad: Gradient by the aggregates, shape (num_dst, columns); the edges' part begins at column 0.
        own_column: First column of the part for a destination's own row.
        own: Factors of own rows, shape (num_dst,), or empty if own rows don't count.
        weights: Factors of edges, shape (num_edges,).
        by_source: The edges by source.
        activated: The sources' rows after ReLU and dropout, to include their gradient, and the factor of entries that
            the dropout kept; no rows if there was no activation.
        out: Written, float32 or bfloat16, shape (num_src, width).
        low: First row.
        high: Past the last row.
    """
    (starts, targets, edges), (alive, scale), width = by_source, activated, out.shape[1]
    scratch = np.empty(width, dtype=np.float32)
    for s in range(low, high):
        total = sum_of(out[s], scratch)
        if s < len(own):
            row, factor = grad[s, own_column : own_column + width], own[s]
            for j in range(width):
                total[j] = factor * widened(row[j])
        else:
            total[:] = np.float32(0)
        for k in range(starts[s], starts[s + 1]):
            row, factor = grad[targets[k]], weights[edges[k]]
            for j in range(width):
                total[j] += factor * widened(row[j])
        if len(alive):
            passed = alive[s]
            for j in range(width):
                total[j] = _ZERO if widened(passed[j]) <= _ZERO else total[j] * scale
        settle(total, out[s])
