"""Compiled kernels that pick some of a row's in-neighbors: weighted sampling without replacement, with two weights.

A cached in-neighbor weighs `bias`, any other 1. A row's cached in-neighbors come first, so two counts describe the
whole row (two buckets). All kernels release the GIL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.prefetch import prefetch
from a3gnn.sampling.random import below, uniform
from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def pick_two_bucket(
    stream: np.uint64,
    cached: int,
    bias: float,
    indices: NDArray[np.int32],
    begin: int,
    degree: int,
    picks: NDArray[np.int32],
) -> None:
    """Fills `picks`, int32, shape (fanout,), with distinct offsets in [0, degree), and prefetches `indices` there.

    The row begins at `begin`; its first `cached` in-neighbors are the cached ones. It samples as A3GNN's Algorithm 2,
    with O(fanout) random draws. Each pick draws its bucket, by the remaining weight in each; the members of a bucket
    are then a uniform subset of it. The order of picks is not random. Needs degree > fanout.
    """
    fanout, num_inside = len(picks), 0
    if cached > 0:
        inside, outside = np.float64(cached), np.float64(degree - cached)
        for i in range(fanout):
            if uniform(stream, i) * (bias * inside + outside) < bias * inside:
                inside -= 1.0
                num_inside += 1
            else:
                outside -= 1.0
        _pick_uniform(stream, fanout, 0, cached, indices, begin, picks, 0, num_inside)
    _pick_uniform(stream, fanout, cached, degree - cached, indices, begin, picks, num_inside, fanout)


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

    The range grows by one per pick; a duplicate is replaced by the range's upper end, which no earlier pick can be. For
    up to 64 offsets, a one-word bitmap detects duplicates without branching. For more, duplicates are rare. Two words,
    one by the offset's low 6 bits and one by the next 6, then exclude most before a comparison with earlier picks.
    """
    least, seen, seen_above = size - last, np.uint64(0), np.uint64(0)
    if size <= 64:
        for i in range(first, last):
            pick = below(stream, counter + i, least + i + 1)
            pick = least + i if seen & _bit(pick) else pick
            seen |= _bit(pick)
            picks[i] = low + pick
            prefetch(indices, begin + low + pick)
        return
    for i in range(first, last):
        pick = below(stream, counter + i, least + i + 1)
        if seen & _bit(pick) and seen_above & _bit(pick >> 6):
            duplicate = False
            for j in range(first, i):
                duplicate |= picks[j] == low + pick
            if duplicate:
                pick = least + i
        seen |= _bit(pick)
        seen_above |= _bit(pick >> 6)
        picks[i] = low + pick
        prefetch(indices, begin + low + pick)


@njit(cache=True, nogil=True, inline="always")
def _bit(offset: int) -> np.uint64:
    """Returns a word with the bit of `offset`'s low 6 bits set."""
    return np.uint64(1) << np.uint64(offset & 63)
