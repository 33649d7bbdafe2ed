"""Compiled kernels that pick among a row's in-neighbours, all by one law: weighted sampling without replacement.

Only two weights exist, so that counts do for a row whose cached in-neighbours come first (two buckets). For rows in no
such order there are `rejection` and, as the reference, A-Res. All release the GIL.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from a3gnn.sampling.prefetch import prefetch
from a3gnn.sampling.random import below, uniform

#: Where a row begins in `indices` (int64), and its degree (int32).
Row = tuple[np.int64, np.int32]


@njit(cache=True, nogil=True)
def pick_two_bucket(
    stream: np.uint64, cached: int, bias: float, indices: NDArray[np.int32], row: Row, picks: NDArray[np.int32]
) -> None:
    """Fills `picks`, int32, shape (fanout,), with distinct offsets in [0, degree), and asks for their `indices`.

    The first `cached` offsets weigh `bias`, the others 1. The law of weighted sampling without replacement (A3GNN,
    Algorithm 2) in O(fanout) draws: only two weights exist, so the buckets are drawn one by one by their remaining
    weight, then members uniformly within. Picks are a set: their order is not random. Needs degree > fanout.
    """
    begin, degree = row
    fanout, taken = len(picks), 0
    if cached > 0:
        inside, outside = np.float64(cached), np.float64(degree - cached)
        for i in range(fanout):
            if uniform(stream, i) * (bias * inside + outside) < bias * inside:
                inside -= 1.0
                taken += 1
            else:
                outside -= 1.0
        _pick_uniform(stream, fanout, 0, cached, indices, begin, picks, 0, taken)
    _pick_uniform(stream, fanout, cached, degree - cached, indices, begin, picks, taken, fanout)


@njit(cache=True, nogil=True, inline="always")
def _pick_uniform(
    stream: np.uint64,
    counter: int,
    low: int,
    size: int,
    indices: NDArray[np.int32],
    begin: int,
    picks: NDArray[np.int32],
    first: int,
    last: int,
) -> None:
    """Fills `picks[first:last]` with a uniform set of distinct offsets in [low, low + size), by Floyd's algorithm.

    A pick that was met before gives way to the last offset it might have been. In a small bucket a word knows who was
    met, and whether one was can't be foreseen, so there is no branch; in a large one it hardly ever happens.
    """
    least, met, met_above = size - last, np.uint64(0), np.uint64(0)
    if size <= 64:
        for i in range(first, last):
            pick = below(stream, counter + i, least + i + 1)
            pick = least + i if met & _bit(pick) else pick
            met |= _bit(pick)
            picks[i] = low + pick
            prefetch(indices, begin + low + pick)
        return
    for i in range(first, last):
        pick = below(stream, counter + i, least + i + 1)
        # Only an offset of whose low bits and of whose higher bits one was met can have been met.
        if met & _bit(pick) and met_above & _bit(pick >> 6):
            clash = False
            for j in range(first, i):
                clash |= picks[j] == low + pick
            if clash:
                pick = least + i
        met |= _bit(pick)
        met_above |= _bit(pick >> 6)
        picks[i] = low + pick
        prefetch(indices, begin + low + pick)


@njit(cache=True, nogil=True, inline="always")
def _bit(place: int) -> np.uint64:
    return np.uint64(1) << np.uint64(place & 63)


@njit(cache=True, nogil=True)
def pick_a_res(
    stream: np.uint64,
    neighbours: NDArray[np.int32],
    mask: NDArray[np.bool_],
    bias: float,
    fanout: int,
    picks: NDArray[np.int32],
) -> None:
    """Fills `picks` like `pick_two_bucket`, by A-Res (Efraimidis and Spirakis, 2006): the largest keys u ** (1 / w).

    Keys are compared by their logarithms. O(degree); it needs no reordered row, so that `mask` may change meanwhile.
    """
    keys = np.empty(fanout, dtype=np.float64)
    least = 0
    for i in range(len(neighbours)):
        key = np.log(uniform(stream, i)) / (bias if mask[neighbours[i]] else 1.0)
        if i < fanout:
            keys[i] = key
            picks[i] = i
            if i + 1 == fanout:
                least = int(np.argmin(keys))
        elif key > keys[least]:
            keys[least] = key
            picks[least] = i
            least = int(np.argmin(keys))
