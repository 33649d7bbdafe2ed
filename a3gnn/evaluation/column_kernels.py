"""The kernel that aggregates some columns of all nodes' rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from a3gnn.features.row_kernels import prefetch_row
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import pointer, widened

# Edges by which rows are prefetched: memory takes 100 ns, and adding a narrow row some three.
_AHEAD = 32


@njit(cache=True, nogil=True)
def sum_columns(
    base: int,
    row_like: NDArray[Any],
    first: int,
    edges: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]],
    aggregator: int,
    out: NDArray[np.float32],
    low: int,
    high: int,
) -> None:
    """Writes the aggregates of nodes `first + low` to `first + high` to rows `low` to `high` of `out`.

    Args:
        base: Address of node 0's row; rows follow each other.
        row_like: Stands for a row's length and dtype (`a3gnn.features.row_kernels`).
        first: The node of row 0 of `out`.
        edges: Start of each node's in-edges, shape (n + 1,); the in-neighbors, of which the first has the place
            `indptr[0]`; the edges' weights, empty for ones.
        aggregator: 0 for the mean of the in-neighbors, 1 for the sum with the own row, 2 for that sum without loops,
            where the own row has the weight of the node's loop, or 1.
        out: float32, shape (n, width).
        low: First row.
        high: Past the last row.
    """
    indptr, indices, weights = edges
    width, offset = len(row_like), indptr[0]
    row_bytes, last = width * row_like.itemsize, indptr[high] - offset
    for i in range(low, high):
        total, node = out[i], first + i
        begin, end = indptr[i] - offset, indptr[i + 1] - offset
        total[:] = np.float32(0)
        loop = np.float32(1)
        for e in range(begin, end):
            if e + _AHEAD < last:
                prefetch_row(base + np.int64(indices[e + _AHEAD]) * row_bytes, row_bytes)
            source = np.int64(indices[e])
            weight = weights[e] if len(weights) else np.float32(1)
            if aggregator == 2 and source == node:
                loop = weight
                continue
            row = carray(pointer(base + source * row_bytes), (width,), row_like.dtype)
            for j in range(width):
                total[j] += weight * widened(row[j])
        if aggregator:
            row = carray(pointer(base + node * row_bytes), (width,), row_like.dtype)
            for j in range(width):
                total[j] += loop * widened(row[j])
        elif end > begin:
            share = np.float32(1) / np.float32(end - begin)
            for j in range(width):
                total[j] *= share
