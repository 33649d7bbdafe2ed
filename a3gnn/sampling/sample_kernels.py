"""Compiled kernels of the sampler: adjacency by cache, bounds of rows, hops, picks. All release the GIL.

A hop is sampled in chunks of rows, in passes over bounds, in-neighbors and the relabeling map. Each pass prefetches
the data of the next one, so reads that are far apart overlap instead of waiting for each other. A cached in-neighbor
weighs `bias`, any other 1. A row's cached in-neighbors come first, so two counts describe the whole row (two buckets).

A NamedTuple costs nothing between kernels. As an argument from Python it costs microseconds, so `sample_hops` takes
none. numba's cache pickles the classes of a kernel's arguments, and fails to load after one is renamed. So kernels that
take NamedTuples are compiled as part of `sample_hops` and have no `cache=True` themselves.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.random import below, fold, hop_key, uniform
from a3gnn.sampling.relabeling import forget, relabel
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import prefetch

Integer = TypeVar("Integer", np.int32, np.int64)
#: Most edges per mini-batch, because positions in its arrays are int32.
MAX_EDGES = 2**31 - 1
# Rows between a prefetch and its read. Guess.
_AHEAD = 16
#: Rows per chunk: the fastest in a prototype, on a graph of 2.4 million nodes.
CHUNK = 32


class RowBounds(NamedTuple):
    """The start of each row of a hop in `indices` (int64), its degree and its cached in-neighbors (int32)."""

    begin: NDArray[np.int64]
    degree: NDArray[np.int32]
    cached: NDArray[np.int32]


class HopDraw(NamedTuple):
    """Parameters of the draw of one hop.

    Attributes:
        fanout: In-neighbors per row; below 0 for all.
        key: Key of the hop's random numbers.
        bias: Weight of a cached in-neighbor; others weigh 1.
    """

    fanout: int
    key: np.uint64
    bias: float


class RowRange(NamedTuple):
    """Rows `low` to `high` (exclusive) of a hop."""

    low: int
    high: int


@njit(cache=True, nogil=True)
def cached_first(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    cached: NDArray[np.bool_],
    values: NDArray[Integer],
    out: NDArray[Integer],
) -> NDArray[np.int32]:
    """Copies `values`, one per edge, to `out`, each row's cached in-neighbors first; both kinds keep their order.

    Returns:
        The number of cached in-neighbors per row, int32, shape (num_nodes,).
    """
    counts = np.zeros(len(indptr) - 1, dtype=np.int32)
    for v in range(len(counts)):
        front = indptr[v]
        for e in range(indptr[v], indptr[v + 1]):
            if cached[indices[e]]:
                out[front] = values[e]
                front += 1
        counts[v] = front - indptr[v]
        for e in range(indptr[v], indptr[v + 1]):
            if not cached[indices[e]]:
                out[front] = values[e]
                front += 1
    return counts


@njit(nogil=True)
def row_bounds(
    indptr: NDArray[np.int64],
    num_cached: NDArray[np.int32],
    nodes: NDArray[np.int32],
    fanout: int,
    bounds: RowBounds,
) -> int:
    """Fills `bounds` for each of `nodes`; an empty `num_cached` means that none is cached.

    Returns:
        The number of in-neighbors that `fanout` takes of all `nodes` together.
    """
    begin, degree, cached = bounds
    biased = len(num_cached) > 0
    total = 0
    for i in range(len(nodes)):
        if i + _AHEAD < len(nodes):
            prefetch(indptr, np.int64(nodes[i + _AHEAD]))
            if biased:
                prefetch(num_cached, np.int64(nodes[i + _AHEAD]))
        v = nodes[i]
        begin[i] = indptr[v]
        degree[i] = indptr[v + 1] - indptr[v]
        cached[i] = num_cached[v] if biased else 0
        total += degree[i] if fanout < 0 else min(fanout, degree[i])
    return total


@njit(nogil=True)
def pick_rows(
    rows: RowRange,
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: RowBounds,
    draw: HopDraw,
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
) -> None:
    """Picks in-neighbors of a hop's `rows`: writes the rows' ends to `indptr`, and the picks' offsets to `edges`."""
    begin, degree, cached = bounds
    for i in range(rows.low, rows.high):
        size = degree[i] if draw.fanout < 0 else min(draw.fanout, degree[i])
        indptr[i + 1] = indptr[i] + size
        picks = edges[indptr[i] - indptr[0] : indptr[i + 1] - indptr[0]]
        if size == degree[i]:
            for j in range(size):
                picks[j] = j
                prefetch(indices, begin[i] + j)
            continue
        stream = fold(draw.key, np.uint64(nodes[i]))
        pick_two_bucket(stream, cached[i], draw.bias, indices, begin[i], degree[i], picks)


@njit(nogil=True)
def sample_rows(
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: RowBounds,
    draw: HopDraw,
    position: NDArray[np.int32],
    n_id: NDArray[np.int32],
    count: int,
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
) -> int:
    """Samples one hop: writes each row's local in-neighbors to `edges` and its end to `indptr[1:]`.

    `indptr[0]` is the number of edges from earlier hops. `position` is the relabeling map; unseen nodes are appended to
    `n_id` from `count` on.

    Returns:
        The new count of `n_id`.
    """
    for lo in range(0, len(nodes), CHUNK):
        hi = min(lo + CHUNK, len(nodes))
        first = indptr[lo] - indptr[0]
        pick_rows(RowRange(lo, hi), indices, nodes, bounds, draw, indptr, edges)
        for i in range(lo, hi):
            for e in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
                edges[e] = indices[bounds.begin[i] + edges[e]]
                prefetch(position, np.int64(edges[e]))
        count = relabel(edges[first : indptr[hi] - indptr[0]], position, n_id, count)
    return count


@njit(cache=True, nogil=True)
def sample_hops(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    num_cached: NDArray[np.int32],
    fanouts: NDArray[np.int64],
    bias: float,
    seed: np.uint64,
    epoch: np.uint64,
    batch: np.uint64,
    seeds: NDArray[np.int32],
    position: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Samples all hops from `seeds` in one call, because a call from Python costs as much as hundreds of rows.

    Args:
        indptr: Of an `Adjacency`.
        indices: Of an `Adjacency`.
        num_cached: Of an `Adjacency`.
        fanouts: In-neighbors per node, the seeds' hop first; below 0 for all.
        bias: As in `HopDraw`.
        seed: Keys the random numbers, with `epoch` and `batch`.
        epoch: As `seed`.
        batch: As `seed`.
        seeds: In range.
        position: Zeros, int32, shape (num_nodes,); zeros again on return unless a hop is missing.

    Returns:
        n_id, indptr, indices and the nodes known after each hop. Two cases stop early and leave the sizes of later hops
        0: repeated seeds, for which the first size is the number of distinct ones, and a hop with more than `MAX_EDGES`
        edges in total.
    """
    n_id, sizes = np.empty(len(seeds) + 1, dtype=np.int32), np.zeros(len(fanouts) + 1, dtype=np.int64)
    pointers, edges, first = np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32), 0
    count = relabel(seeds.copy(), position, n_id, 0)
    sizes[0] = count
    if count < len(seeds):
        return n_id, pointers, edges, sizes
    for hop in range(len(fanouts)):
        nodes, before, rows = n_id[first:count], len(edges), len(pointers) - 1
        begin, degree = np.empty(len(nodes), dtype=np.int64), np.empty(len(nodes), dtype=np.int32)
        bounds = RowBounds(begin, degree, np.empty(len(nodes), dtype=np.int32))
        total = row_bounds(indptr, num_cached, nodes, fanouts[hop], bounds)
        if before + total > MAX_EDGES:
            return n_id, pointers, edges, sizes
        pointers, edges = grown(pointers, rows + 1 + len(nodes)), grown(edges, before + total)
        n_id, first = grown(n_id[:count], min(count + total, len(position)) + 1), count
        draw = HopDraw(fanouts[hop], hop_key(seed, epoch, batch, np.uint64(hop)), bias)
        own_pointers, own_edges = pointers[rows:], edges[before:]
        count = sample_rows(indices, nodes, bounds, draw, position, n_id, count, own_pointers, own_edges)
        sizes[hop + 1] = count
    forget(n_id[:count], position)
    return n_id[:count], pointers, edges, sizes


@njit(cache=True, nogil=True)
def grown(array: NDArray[Integer], capacity: int) -> NDArray[Integer]:
    """Returns a copy of `array` with `capacity` entries; the new entries are not initialized."""
    larger = np.empty(capacity, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@njit(cache=True)
def _first_kernel() -> bool:
    return True


# The first call of a kernel makes numba import the larger half of itself, which takes a third of a second. The call
# here keeps it out of the first mini-batch.
_first_kernel()


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
