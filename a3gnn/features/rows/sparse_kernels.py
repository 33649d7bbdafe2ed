"""Compiled kernels over sparse rows: widened, measured, copied. All release the GIL."""

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

    Both are (indptr, indices, data) with data of one dtype; the indptr of `out` is set by the caller.
    """
    indptr, indices, data = source
    out_indptr, out_indices, out_data = out
    for i in range(len(ids)):
        to = out_indptr[where[i]]
        for e in range(indptr[ids[i]], indptr[ids[i] + 1]):
            out_indices[to] = indices[e]
            out_data[to] = data[e]
            to += 1
