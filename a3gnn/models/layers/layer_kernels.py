"""Compiled kernels between layers: ReLU and dropout, and gradients gathered by source. All release the GIL.

Each call works on a range of its output, on one thread. `a3gnn.threads.pool` splits the output; the split doesn't
change a bit of the results. Rows of activations and of their gradients are float32, or int16 for the bits of bfloat16;
all arithmetic is in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.row_kernels import settle, sum_of
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import narrowed, widened

# With a plain 0, an integer, numba would compare in double precision.
_ZERO = np.float32(0)
_ONE = np.float32(1)
# Below it a float32 exponential is 0 in effect.
_LOWEST = np.float32(-87)


@njit(cache=True, nogil=True, inline="always")
def random_bits(low_key: np.uint32, high_key: np.uint32, place: int) -> Any:
    """Returns 32 random bits for `place`, a pure function of it and the keys.

    It uses two rounds of a 32-bit multiply and shift (Wellons' lowbias32), which vectorizes, unlike 64-bit products.
    The second key enters between the rounds, so that masks of different keys are not permutations of each other.
    """
    z = np.uint32(place) ^ low_key
    z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x7FEB352D))
    z = np.uint32((z ^ (z >> np.uint32(15))) + high_key)
    z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x846CA68B))
    z = np.uint32((z ^ (z >> np.uint32(15))) * np.uint32(0x7FEB352D))
    return np.uint32(z ^ (z >> np.uint32(16)))


@njit(cache=True, nogil=True, inline="always")
def _rectify_dropped(
    part: NDArray[Any],
    first: np.uint32,
    threshold: np.uint32,
    scale: np.float32,
    low_key: np.uint32,
    high_key: np.uint32,
) -> None:
    """Overwrites `part` by its ReLU, dropped or scaled; its entries have the places from `first` on."""
    for j in range(len(part)):
        factor = _ZERO if random_bits(low_key, high_key, np.uint32(j) + first) < threshold else scale
        value = widened(part[j])
        part[j] = narrowed((_ZERO if value <= _ZERO else value) * factor, part)


@njit(cache=True, nogil=True)
def rectify(
    x: NDArray[Any],
    threshold: np.uint32,
    scale: np.float32,
    low_key: np.uint32,
    high_key: np.uint32,
    low: int,
    high: int,
) -> None:
    """Overwrites entries `low` to `high` of the flat `x` by their ReLU, dropped or scaled; NaN stays.

    Entries whose random bits are below `threshold` are dropped.
    """
    # Counts from 0 over a slice, because an index with `low` prevents vectorization.
    part, first = x[low:high], np.uint32(low)
    if threshold == 0:
        for j in range(len(part)):
            value = widened(part[j])
            part[j] = narrowed(_ZERO if value <= _ZERO else value, part)
        return
    _rectify_dropped(part, first, threshold, scale, low_key, high_key)


@njit(cache=True, nogil=True)
def rectify_rows(
    x: NDArray[Any],
    places: NDArray[np.int64],
    threshold: np.uint32,
    scale: np.float32,
    low_key: np.uint32,
    high_key: np.uint32,
    low: int,
    high: int,
) -> None:
    """Overwrites rows `low` to `high` of `x`, (n_rows, width), as `rectify` would the whole matrix's rows `places`."""
    width = x.shape[1]
    for i in range(low, high):
        _rectify_dropped(x[i], np.uint32(places[i] * width), threshold, scale, low_key, high_key)


@njit(cache=True, nogil=True)
def gate(
    grad: NDArray[Any],
    alive: NDArray[Any],
    scale: np.float32,
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the flat `grad` times `scale` if `alive`, the activation's output, is positive, and 0 otherwise."""
    given, passed, written = grad[low:high], alive[low:high], out[low:high]
    for j in range(len(given)):
        written[j] = narrowed(_ZERO if widened(passed[j]) <= _ZERO else widened(given[j]) * scale, written)


@njit(cache=True, nogil=True, inline="always")
def _exponential(x: np.float32) -> Any:
    """Returns e**x for x <= 0 to 2 units in the last place (Cephes' expf); NaN stays.

    It replaces numba's own call, which does not vectorize.
    """
    held = x if x > _LOWEST else _LOWEST
    power = np.floor(held * np.float32(1.44269504) + np.float32(0.5))
    r = held - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)
    tail = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    tail = (tail * r + np.float32(8.3334519073e-3)) * r + np.float32(4.1665795894e-2)
    tail = (tail * r + np.float32(1.6666665459e-1)) * r + np.float32(5.0000001201e-1)
    whole = np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)
    value = (tail * r * r + r + _ONE) * whole
    return value if x > _LOWEST else (_ZERO if x <= _LOWEST else x)


# numpy's error model, because Python's would raise. Overflowed scores sum to NaN, which the loss reports.
@njit(cache=True, nogil=True, error_model="numpy")
def softmax(scores: NDArray[np.float32]) -> None:
    """Overwrites the scores of a destination, shape (num_slots, heads), by their softmax over the slots; NaN stays."""
    slots, heads = scores.shape
    for h in range(heads):
        top = scores[0, h]
        for k in range(1, slots):
            top = max(top, scores[k, h])
        for k in range(slots):
            scores[k, h] -= top
    flat = scores.reshape(-1)
    for k in range(len(flat)):
        flat[k] = _exponential(flat[k])
    for h in range(heads):
        total = _ZERO
        for k in range(slots):
            total += scores[k, h]
        share = _ONE / total
        for k in range(slots):
            scores[k, h] *= share


@njit(cache=True, nogil=True)
def count_in_edges(indptr: NDArray[np.int32], indices: NDArray[np.int32], degrees: NDArray[np.float32]) -> None:
    """Writes each destination's number of in-neighbors other than itself, and 0 for the other nodes."""
    rows = len(indptr) - 1
    for i in range(rows):
        count = 0
        for e in range(indptr[i], indptr[i + 1]):
            count += indices[e] != i
        degrees[i] = count
    degrees[rows:] = np.float32(0)


@njit(cache=True, nogil=True)
def by_source(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    starts: NDArray[np.int32],
    edges: NDArray[np.int32],
    targets: NDArray[np.int32],
) -> None:
    """Sorts a block's edges by source, stably, so that gradients are summed in the order of the edges.

    Args:
        indptr: The block's, shape (num_dst + 1,).
        indices: The block's, shape (num_edges,).
        starts: Written: the start of each source's edges, shape (num_src + 1,).
        edges: Written: the sorted edges, shape (num_edges,).
        targets: Written: the sorted edges' destinations, shape (num_edges,).
    """
    starts[:] = 0
    for source in indices:
        starts[source + 1] += 1
    for s in range(1, len(starts)):
        starts[s] += starts[s - 1]
    place = starts[:-1].copy()
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            at = place[indices[e]]
            place[indices[e]] = at + 1
            edges[at] = e
            targets[at] = i


@njit(cache=True, nogil=True)
def collect(
    grad: NDArray[Any],
    own_column: int,
    own: NDArray[np.float32],
    weights: NDArray[np.float32],
    starts: NDArray[np.int32],
    edges: NDArray[np.int32],
    targets: NDArray[np.int32],
    alive: NDArray[Any],
    scale: np.float32,
    out: NDArray[Any],
    low: int,
    high: int,
) -> None:
    """Writes the gradient of sources `low` to `high` from the gradient of the destinations' aggregates.

    Args:
        grad: Gradient by the aggregates, shape (num_dst, columns); the edges' part begins at column 0.
        own_column: First column of the part for a destination's own row.
        own: Factors of own rows, shape (num_dst,), or empty if own rows don't count.
        weights: Factors of edges in the block's order, shape (num_edges,).
        starts: See `by_source`.
        edges: See `by_source`.
        targets: See `by_source`.
        alive: The sources' rows after ReLU and dropout, to include their gradient; empty if there was no activation.
        scale: Factor of entries that the dropout kept.
        out: Written, shape (num_src, width).
        low: First row.
        high: Past the last row.
    """
    width = out.shape[1]
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


def warm_up() -> None:
    """Compiles all these kernels or loads them from numba's cache; a mini-batch's size determines which it needs."""
    rows, nodes, indptr = np.zeros((1, 1), dtype=np.float32), np.zeros(1, dtype=np.int32), np.arange(2, dtype=np.int32)
    flat, one, key = rows.reshape(-1), np.float32(1), np.uint32(0)
    by_source(indptr, nodes, indptr.copy(), nodes.copy(), nodes.copy())
    collect(rows, 0, flat, flat, indptr, nodes, nodes, rows, one, rows.copy(), 0, 1)
    count_in_edges(indptr, nodes, flat.copy())
    rectify(flat, key, one, key, key, 0, 1)
    gate(flat, flat, one, flat.copy(), 0, 1)
