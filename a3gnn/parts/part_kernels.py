"""Compiled kernels of graph servers and of their clients. All release the GIL."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.random import hop_key
from a3gnn.sampling.sample_kernels import CHUNK, Csr, HopDraw, HopRows, RowBounds, pick_rows, row_bounds
from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def draw_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    rows: NDArray[np.int32],
    nodes: NDArray[np.int32],
    fanout: int,
    seed: np.uint64,
    epoch: np.uint64,
    batch: np.uint64,
    hop: np.uint64,
) -> NDArray[np.int32]:
    """Returns the in-neighbors that `sample` draws for `nodes` in one hop, int32, row by row.

    Args:
        indptr: CSR of a part's rows.
        indices: In-neighbors by their ids in the whole graph.
        rows: Rows of `nodes` in the part, in range.
        nodes: Their ids in the whole graph, which key the random numbers.
        fanout: In-neighbors per node; below 0 for all.
        seed: Keys the random numbers.
        epoch: As `seed`.
        batch: As `seed`.
        hop: As `seed`.
    """
    count = len(rows)
    begin, degree = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int32)
    bounds = RowBounds(begin, degree, np.empty(count, dtype=np.int32))
    none, key = np.empty(0, dtype=np.int32), np.array([hop_key(seed, epoch, batch, hop)])
    csr = Csr(indptr, indices, none, np.empty(0, dtype=np.float64), none)
    asked = HopRows(rows, nodes, none, none, none, np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int64))
    draw = HopDraw(np.array([fanout]), key, np.zeros(1, dtype=np.bool_), 1.0, False, False)
    total = row_bounds(csr, asked, draw, bounds)
    ends, drawn = np.zeros(count + 1, dtype=np.int32), np.empty(total, dtype=np.int32)
    for low in range(0, count, CHUNK):
        high = min(low + CHUNK, count)
        pick_rows(low, high, csr, asked, bounds, draw, ends, drawn)
        for i in range(low, high):
            for e in range(ends[i], ends[i + 1]):
                drawn[e] = indices[begin[i] + drawn[e]]
    return drawn


@njit(cache=True, nogil=True)
def put_rows(
    answer: NDArray[np.int32],
    places: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    out: NDArray[np.int32],
) -> None:
    """Copies consecutive rows of `answer`, of `counts[place]` entries each, to `out` at `starts[place]`."""
    at = 0
    for i in range(len(places)):
        place = places[i]
        for j in range(counts[place]):
            out[starts[place] + j] = answer[at + j]
        at += counts[place]
