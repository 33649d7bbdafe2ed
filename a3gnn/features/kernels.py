"""Compiled kernels of the feature store: routing ids to tiers, and copying sparse rows. All release the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from a3gnn.features.intrinsics import widened


@njit(cache=True, nogil=True)
def split(
    position: NDArray[np.int32], ids: NDArray[np.int32], where: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Splits `ids`, wanted at rows `where` of the output, by whether `position` knows them (>= 0).

    Returns:
        (positions, where) of the hits and (ids, where) of the misses, in order, int32.
    """
    hits, hits_at = np.empty_like(ids), np.empty_like(where)
    misses, misses_at = np.empty_like(ids), np.empty_like(where)
    found = 0
    for i in range(len(ids)):
        place = position[ids[i]]
        if place >= 0:
            hits[found] = place
            hits_at[found] = where[i]
            found += 1
        else:
            misses[i - found] = ids[i]
            misses_at[i - found] = where[i]
    lost = len(ids) - found
    return hits[:found], hits_at[:found], misses[:lost], misses_at[:lost]


@njit(cache=True, nogil=True)
def widen(halves: NDArray[np.uint16], out: NDArray[np.float32]) -> None:
    """Copies `halves`, the bits of float16, to `out` as float32; both of one dimension."""
    for i in range(len(halves)):
        out[i] = widened(halves[i])


@njit(cache=True, nogil=True)
def row_lengths(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], where: NDArray[np.int32], out: NDArray[np.int64]
) -> None:
    """Writes the stored entries of rows `ids` to `out[where]`."""
    for i in range(len(ids)):
        out[where[i]] = indptr[ids[i] + 1] - indptr[ids[i]]


@njit(cache=True, nogil=True)
def gather_csr(
    source: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]],
    ids: NDArray[np.int32],
    where: NDArray[np.int32],
    out: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]],
) -> None:
    """Copies rows `ids` of the CSR `source` to rows `where` of the CSR `out`, whose indptr is there already.

    Both are (indptr, indices, data), data of one type.
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
def log_unseen(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], fanout: int, seen: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns, for each node, the log probability that no destination samples it, float64, shape (num_nodes,).

    `seen` is each destination's probability of being expanded; a row gives each in-neighbour with probability
    min(1, fanout / degree), 1 where `fanout` is -1.
    """
    total = np.zeros(len(seen), dtype=np.float64)
    for u in range(len(seen)):
        degree = indptr[u + 1] - indptr[u]
        if seen[u] > 0 and degree > 0:
            share = 1.0 if fanout < 0 else min(1.0, fanout / degree)
            term = np.log1p(-min(seen[u] * share, 1.0 - 1e-15))
            for e in range(indptr[u], indptr[u + 1]):
                total[indices[e]] += term
    return total
