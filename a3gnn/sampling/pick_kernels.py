"""Compiled kernels that pick among a row's in-neighbours, all by one law: weighted sampling without replacement.

Only two weights exist, so that counts do for a row whose cached in-neighbours come first (two buckets). In a row in no
such order, slots are proposed and rejected, or it is scanned. All release the GIL.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from a3gnn.sampling.random import below, fold, uniform

# The stream of what follows a row's rejected proposals, beyond any counter of theirs.
_REST = np.uint64(1 << 62)


@njit(cache=True, nogil=True)
def pick_two_bucket(
    stream: np.uint64,
    cached: int,
    degree: int,
    bias: float,
    fanout: int,
    picks: NDArray[np.int32],
) -> None:
    """Fills `picks`, int32, shape (fanout,), with distinct offsets in [0, degree).

    The first `cached` offsets weigh `bias`, the others 1. The law of weighted sampling without replacement (A3GNN,
    Algorithm 2) in O(fanout) draws: only two weights exist, so the buckets are drawn one by one by their remaining
    weight, then members uniformly within (Floyd's algorithm). Picks are a set: their order is not random. Needs
    degree > fanout.
    """
    taken = 0
    if cached > 0:
        inside, outside = np.float64(cached), np.float64(degree - cached)
        for i in range(fanout):
            if uniform(stream, i) * (bias * inside + outside) < bias * inside:
                inside -= 1.0
                taken += 1
            else:
                outside -= 1.0
    # Which of 64 classes by low bits, and by the bits above, picks are of: only one of a known class in both can clash.
    low_bits = high_bits = np.uint64(0)
    for i in range(fanout):
        low = 0 if i < taken else cached
        size = cached - taken + i + 1 if i < taken else degree - cached - fanout + i + 1
        pick = low + below(stream, fanout + i, size)
        of_low, of_high = _class(pick), _class(pick >> 6)
        if low_bits & of_low and high_bits & of_high:
            clash = False
            for j in range(i):
                clash |= picks[j] == pick
            if clash:
                pick = low + size - 1
                of_low, of_high = _class(pick), _class(pick >> 6)
        low_bits |= of_low
        high_bits |= of_high
        picks[i] = pick


@njit(cache=True, nogil=True, inline="always")
def _class(pick: int) -> np.uint64:
    return np.uint64(1) << np.uint64(pick & 63)


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


@njit(cache=True, nogil=True)
def pick_scan(
    stream: np.uint64,
    neighbours: NDArray[np.int32],
    mask: NDArray[np.bool_],
    bias: float,
    taken: int,
    picks: NDArray[np.int32],
) -> None:
    """Completes `picks`, of which the first `taken` are there, by two buckets over a scan of the whole row."""
    order = np.empty(len(neighbours) - taken, dtype=np.int32)
    front, back = 0, len(order)
    for i in range(len(neighbours)):
        chosen = False
        for j in range(taken):
            chosen |= picks[j] == i
        if chosen:
            continue
        if mask[neighbours[i]]:
            order[front] = i
            front += 1
        else:
            back -= 1
            order[back] = i
    rest = picks[taken:]
    pick_two_bucket(stream, front, len(order), bias, len(rest), rest)
    for j in range(len(rest)):
        rest[j] = order[rest[j]]


@njit(cache=True, nogil=True)
def pick_rejection(
    stream: np.uint64,
    neighbours: NDArray[np.int32],
    mask: NDArray[np.bool_],
    bias: float,
    picks: NDArray[np.int32],
) -> None:
    """Fills `picks` like `pick_two_bucket`, from `mask` as it is now and without ordering the row.

    A slot is proposed uniformly, and taken unless it has been, always if cached and else with probability 1 / bias:
    each taken one is drawn by its weight among those that remain. After as many proposals as the row has slots, the
    rest is drawn by `pick_scan` among what is left, which continues the same law (starting the row anew would not).
    """
    taken, degree = 0, len(neighbours)
    for t in range(degree):
        slot = below(stream, 2 * t, degree)
        if not mask[neighbours[slot]] and uniform(stream, 2 * t + 1) * bias >= 1.0:
            continue
        chosen = False
        for j in range(taken):
            chosen |= picks[j] == slot
        if not chosen:
            picks[taken] = slot
            taken += 1
            if taken == len(picks):
                return
    pick_scan(fold(stream, _REST), neighbours, mask, bias, taken, picks)
