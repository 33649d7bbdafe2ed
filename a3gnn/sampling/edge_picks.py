"""Compiled kernels that pick some of a row's edges: uniformly or by weight, without replacement or with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.kernel_types import EdgeDraw, EdgeRow
from a3gnn.sampling.pick_kernels import pick_two_bucket
from a3gnn.sampling.prefetch import prefetch
from a3gnn.sampling.random import below, uniform
from a3gnn.storage.compiled import njit


@njit(nogil=True)
def pick_edges(
    stream: np.uint64,
    draw: EdgeDraw,
    indices: NDArray[np.int32],
    weights: NDArray[np.float64],
    row: EdgeRow,
    picks: NDArray[np.int32],
) -> int:
    """Writes the offsets of a row's picks to `picks`, which may be longer, and returns how many there are.

    A row of at most as many edges as the fanout gives all of them, unless `draw` replaces.
    """
    fanout, (begin, degree, cached) = draw.fanout, row
    if fanout < 0 or degree == 0 or (degree <= fanout and not draw.replace):
        for j in range(degree):
            picks[j] = j
            prefetch(indices, begin + j)
        return degree
    if len(weights) > 0:
        own = weights[begin : begin + degree]
        if draw.replace:
            return int(pick_weighted_again(stream, own, picks[:fanout]))
        return int(pick_weighted(stream, own, picks[:fanout]))
    if draw.replace:
        for j in range(fanout):
            picks[j] = below(stream, j, degree)
            prefetch(indices, begin + picks[j])
    else:
        pick_two_bucket(stream, cached, draw.bias, indices, begin, degree, picks[:fanout])
    return fanout


@njit(cache=True, nogil=True)
def pick_weighted(stream: np.uint64, weights: NDArray[np.float64], picks: NDArray[np.int32]) -> int:
    """Fills `picks` with distinct offsets into `weights`, by A-Res (Efraimidis and Spirakis, 2006): O(degree).

    Each pick takes one of the offsets that are left with a probability proportional to its weight: the largest keys
    u ** (1 / w), compared by their logarithms. An offset of weight 0 is never picked.

    Returns:
        How many are picked: fewer than `picks` has room for where fewer weights are above 0.
    """
    keys, count, least = np.empty(len(picks), dtype=np.float64), 0, 0
    for i in range(len(weights)):
        if weights[i] == 0.0:
            continue
        key = np.log(uniform(stream, i)) / weights[i]
        if count < len(picks):
            keys[count] = key
            picks[count] = i
            count += 1
            if count == len(picks):
                least = int(np.argmin(keys))
        elif key > keys[least]:
            keys[least] = key
            picks[least] = i
            least = int(np.argmin(keys))
    return count


@njit(cache=True, nogil=True)
def pick_weighted_again(stream: np.uint64, weights: NDArray[np.float64], picks: NDArray[np.int32]) -> int:
    """Fills `picks` with offsets into `weights`, each drawn anew with a probability proportional to its weight.

    Returns:
        How many are picked: none where no weight is above 0.
    """
    totals = np.cumsum(weights)
    if totals[-1] == 0.0:
        return 0
    for j in range(len(picks)):
        picks[j] = np.searchsorted(totals, uniform(stream, j) * totals[-1], side="right")
    return len(picks)
