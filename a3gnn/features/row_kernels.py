"""Compiled kernels over rows given by their addresses: copied, or summed by destination. All release the GIL.

Each call works on rows `low` to `high` of its output, on one thread; `a3gnn.team` shares ranges out. A row is summed in
the order of its edges, four at a time, so that a destination's sum stays in the nearest cache; the rows after next are
asked for meanwhile. The order, and so every bit, is the same however ranges are split.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit
from numpy.typing import NDArray

from a3gnn.features.intrinsics import pointer, prefetch_at, widened

_LINE = 64


@njit(cache=True, nogil=True)
def locate(base: int, row_bytes: int, ids: NDArray[np.int32], addresses: NDArray[np.int64]) -> None:
    """Writes the addresses of rows `ids` of an array that begins at `base`."""
    for i in range(len(ids)):
        addresses[i] = base + ids[i] * row_bytes


@njit(cache=True, nogil=True)
def relocate(
    base: int, row_bytes: int, position: NDArray[np.int32], ids: NDArray[np.int32], addresses: NDArray[np.int64]
) -> int:
    """Overwrites the addresses of those `ids` that a tier at `base` holds (`position` >= 0); returns how many."""
    found = 0
    for i in range(len(ids)):
        place = position[ids[i]]
        if place >= 0:
            addresses[i] = base + place * row_bytes
            found += 1
    return found


@njit(cache=True, nogil=True)
def copy_rows(
    addresses: NDArray[np.int64], stored: NDArray[Any], out: NDArray[np.float32], column: int, low: int, high: int
) -> None:
    """Copies rows `low` to `high` to `out`, from `column` on; `stored` is an empty row's length and dtype."""
    width = len(stored)
    for i in range(low, high):
        row, target = carray(pointer(addresses[i]), (width,), stored.dtype), out[i][column:]
        for j in range(width):
            target[j] = widened(row[j])


@njit(cache=True, nogil=True)
def mean_rows(
    addresses: NDArray[np.int64],
    stored: NDArray[Any],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    out: NDArray[np.float32],
    low: int,
    high: int,
) -> None:
    """Writes the mean of destinations' in-neighbours to the first columns of `out`; 0 where there are none."""
    width, last = len(stored), indptr[high]
    for i in range(low, high):
        total, e, end = out[i][:width], indptr[i], indptr[i + 1]
        if e == end:
            total[:] = np.float32(0)
            continue
        first = carray(pointer(addresses[indices[e]]), (width,), stored.dtype)
        for j in range(width):
            total[j] = widened(first[j])
        e += 1
        while e + 3 < end:
            if e + 7 < last:
                _ask(addresses, indices, e + 4, width * stored.itemsize)
            a = carray(pointer(addresses[indices[e]]), (width,), stored.dtype)
            b = carray(pointer(addresses[indices[e + 1]]), (width,), stored.dtype)
            c = carray(pointer(addresses[indices[e + 2]]), (width,), stored.dtype)
            d = carray(pointer(addresses[indices[e + 3]]), (width,), stored.dtype)
            for j in range(width):
                total[j] = (((total[j] + widened(a[j])) + widened(b[j])) + widened(c[j])) + widened(d[j])
            e += 4
        while e < end:
            row = carray(pointer(addresses[indices[e]]), (width,), stored.dtype)
            for j in range(width):
                total[j] += widened(row[j])
            e += 1
        share = np.float32(1) / np.float32(end - indptr[i])
        for j in range(width):
            total[j] *= share


@njit(cache=True, nogil=True)
def weigh_rows(
    addresses: NDArray[np.int64],
    stored: NDArray[Any],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    own: NDArray[np.float32],
    out: NDArray[np.float32],
    low: int,
    high: int,
) -> None:
    """Writes `own[i] * row i + sum over edges e of weights[e] * row indices[e]` to row i of `out`."""
    width, last = len(stored), indptr[high]
    for i in range(low, high):
        total, e, end = out[i][:width], indptr[i], indptr[i + 1]
        row = carray(pointer(addresses[i]), (width,), stored.dtype)
        for j in range(width):
            total[j] = own[i] * widened(row[j])
        while e + 3 < end:
            if e + 7 < last:
                _ask(addresses, indices, e + 4, width * stored.itemsize)
            a = carray(pointer(addresses[indices[e]]), (width,), stored.dtype)
            b = carray(pointer(addresses[indices[e + 1]]), (width,), stored.dtype)
            c = carray(pointer(addresses[indices[e + 2]]), (width,), stored.dtype)
            d = carray(pointer(addresses[indices[e + 3]]), (width,), stored.dtype)
            p, q, r, s = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
            for j in range(width):
                some = total[j] + p * widened(a[j])
                total[j] = ((some + q * widened(b[j])) + r * widened(c[j])) + s * widened(d[j])
            e += 4
        while e < end:
            row = carray(pointer(addresses[indices[e]]), (width,), stored.dtype)
            weight = weights[e]
            for j in range(width):
                total[j] += weight * widened(row[j])
            e += 1


@njit(cache=True, nogil=True, inline="always")
def _ask(addresses: NDArray[np.int64], indices: NDArray[np.int32], edge: int, row_bytes: int) -> None:
    for e in range(edge, edge + 4):
        address = addresses[indices[e]]
        for offset in range(0, row_bytes, _LINE):
            prefetch_at(address + offset)


@njit(cache=True, nogil=True)
def symmetric_weights(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], weights: NDArray[np.float32], own: NDArray[np.float32]
) -> None:
    """Writes GCN's weights of a mini-batch's edges and self loops: 1 / sqrt(d_source d_destination).

    d counts the node itself and its sampled in-neighbours but itself; nodes beyond the rows of `indptr` have none. An
    edge from a node to itself weighs 0: the self loop stands for it.
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
