"""Compiled kernels of the sampler: rows' bounds, hops, relabelling.

Rows go through in chunks, each pass asking for the memory that the next one reads; without that the reads' latencies
add up. All kernels release the GIL.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from a3gnn.sampling.pick_kernels import pick_a_res, pick_two_bucket
from a3gnn.sampling.prefetch import prefetch
from a3gnn.sampling.random import fold, hop_key
from a3gnn.sampling.rejection import lanes, pick_changing

#: Of each row of a hop: where it begins in `indices` (int64), its degree and how many of it are cached (int32).
Bounds = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
#: How a hop is drawn: cached mask (bool, shape (num_nodes,); empty for two buckets), bias rate, fanout, key, A-Res.
Draw = tuple[NDArray[np.bool_], float, int, np.uint64, bool]

#: Places in a mini-batch's arrays are int32.
MOST_EDGES = 2**31 - 1

_AHEAD = 16
_CHUNK = 32


@njit(cache=True, nogil=True)
def cached_first(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], cached: NDArray[np.bool_], out: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Copies `indices` to `out` with each row's cached in-neighbours first; both groups keep their order.

    Returns:
        How many of each row are cached, int32, shape (num_nodes,).
    """
    counts = np.zeros(len(indptr) - 1, dtype=np.int32)
    for v in range(len(counts)):
        front = indptr[v]
        for e in range(indptr[v], indptr[v + 1]):
            if cached[indices[e]]:
                out[front] = indices[e]
                front += 1
        counts[v] = front - indptr[v]
        for e in range(indptr[v], indptr[v + 1]):
            if not cached[indices[e]]:
                out[front] = indices[e]
                front += 1
    return counts


@njit(cache=True, nogil=True)
def row_bounds(
    indptr: NDArray[np.int64],
    num_cached: NDArray[np.int32],
    nodes: NDArray[np.int32],
    fanout: int,
    begin: NDArray[np.int64],
    degree: NDArray[np.int32],
    cached: NDArray[np.int32],
) -> int:
    """Fills `begin`, `degree` and `cached` for each of `nodes`; an empty `num_cached` means that none is cached.

    Returns:
        How many in-neighbours `fanout` takes of them together.
    """
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


@njit(cache=True, nogil=True)
def pick_rows(
    rows: tuple[int, int],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: Bounds,
    draw: Draw,
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
) -> None:
    """Writes the ends of a hop's rows `rows[0]` to `rows[1]` to `indptr`, and offsets of their picks to `edges`."""
    begin, degree, cached = bounds
    mask, bias, fanout, key, reservoir = draw
    for i in range(rows[0], rows[1]):
        size = degree[i] if fanout < 0 else min(fanout, degree[i])
        indptr[i + 1] = indptr[i] + size
        picks = edges[indptr[i] - indptr[0] : indptr[i + 1] - indptr[0]]
        if size == degree[i]:
            for j in range(size):
                picks[j] = j
                prefetch(indices, begin[i] + j)
            continue
        stream = fold(key, np.uint64(nodes[i]))
        if reservoir:
            pick_a_res(stream, indices[begin[i] : begin[i] + degree[i]], mask, bias, size, picks)
        else:
            pick_two_bucket(stream, cached[i], bias, indices, (begin[i], degree[i]), picks)


@njit(cache=True, nogil=True)
def sample_rows(
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    bounds: Bounds,
    draw: Draw,
    position: NDArray[np.int32],
    n_id: NDArray[np.int32],
    count: int,
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
) -> int:
    """Samples one hop: writes each row's local in-neighbours to `edges` and its end to `indptr[1:]`.

    `indptr[0]` holds the edges that earlier hops sampled. `position` maps a global id to one plus its place in `n_id`,
    0 for unseen; newly seen ids are appended to `n_id` from `count` on.

    Returns:
        The new count of `n_id`.
    """
    mask, bias, fanout, key, reservoir = draw
    changing = len(mask) > 0 and fanout > 0 and not reservoir
    room = _CHUNK * lanes(fanout) if changing else 0
    proposals = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int32)
    ready = fanout + fanout // 2
    for lo in range(0, len(nodes), _CHUNK):
        hi = min(lo + _CHUNK, len(nodes))
        first = indptr[lo] - indptr[0]
        if changing:
            for i in range(lo, hi):
                indptr[i + 1] = indptr[i] + min(fanout, bounds[1][i])
            law = (mask, bias, fanout, key)
            rows = indices, nodes, (bounds[0], bounds[1])
            needed = pick_changing((lo, hi), *rows, law, proposals, edges[first:], ready)
            # Some more than were needed before, so that few rows need more.
            ready = min(needed + needed // 4 + 1, lanes(fanout))
            for e in range(first, indptr[hi] - indptr[0]):
                prefetch(position, np.int64(edges[e]))
        else:
            pick_rows((lo, hi), indices, nodes, bounds, draw, indptr, edges)
            for i in range(lo, hi):
                for e in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
                    edges[e] = indices[bounds[0][i] + edges[e]]
                    prefetch(position, np.int64(edges[e]))
        count = relabel(edges[first : indptr[hi] - indptr[0]], position, n_id, count)
    return count


@njit(cache=True, nogil=True)
def sample_hops(
    adjacency: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]],
    law: tuple[NDArray[np.bool_], float, bool],
    fanouts: NDArray[np.int64],
    key: tuple[np.uint64, np.uint64, np.uint64],
    seeds: NDArray[np.int32],
    position: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Samples all hops from `seeds` in one call: a call costs as much as hundreds of rows.

    Args:
        adjacency: indptr, indices and how many of each row are cached, or none.
        law: Cached mask, bias rate and whether A-Res draws, as in `Draw`.
        fanouts: The seeds' hop first; below 0 for all.
        key: Seed, epoch and batch.
        seeds: Within range.
        position: Zeros, shape (num_nodes,); zeros again where this returns all hops.

    Returns:
        n_id, indptr, indices and the nodes known after each hop. Repeated seeds give just the distinct ones; a hop
        whose edges would pass `MOST_EDGES` gives nothing beyond the hop before it.
    """
    indptr, indices, num_cached = adjacency
    mask, bias, reservoir = law
    n_id, sizes = np.empty(len(seeds) + 1, dtype=np.int32), np.zeros(len(fanouts) + 1, dtype=np.int64)
    pointers, edges, first = np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32), 0
    count = relabel(seeds.copy(), position, n_id, 0)
    sizes[0] = count
    if count < len(seeds):
        return n_id, pointers, edges, sizes
    for hop in range(len(fanouts)):
        nodes, before, rows = n_id[first:count], len(edges), len(pointers) - 1
        begin, degree = np.empty(len(nodes), dtype=np.int64), np.empty(len(nodes), dtype=np.int32)
        cached = np.empty(len(nodes), dtype=np.int32)
        total = row_bounds(indptr, num_cached, nodes, fanouts[hop], begin, degree, cached)
        if before + total > MOST_EDGES:
            return n_id, pointers, edges, sizes
        pointers, edges = _grown(pointers, rows + 1 + len(nodes)), _grown(edges, before + total)
        n_id, first = _grown(n_id[:count], min(count + total, len(position)) + 1), count
        draw = (mask, bias, fanouts[hop], hop_key(key[0], key[1], key[2], np.uint64(hop)), reservoir)
        own = pointers[rows:], edges[before:]
        count = sample_rows(indices, nodes, (begin, degree, cached), draw, position, n_id, count, own[0], own[1])
        sizes[hop + 1] = count
    forget(n_id[:count], position)
    return n_id[:count], pointers, edges, sizes


@njit(cache=True, nogil=True)
def _grown(array: NDArray[np.int32], capacity: int) -> NDArray[np.int32]:
    grown = np.empty(capacity, dtype=np.int32)
    grown[: len(array)] = array
    return grown


@njit(cache=True, nogil=True)
def relabel(ids: NDArray[np.int32], position: NDArray[np.int32], n_id: NDArray[np.int32], count: int) -> int:
    """Replaces global `ids` by their places in `n_id`, appending unseen ones from `count` on; returns the new count.

    `n_id` must have room for one more than are known in the end.
    """
    # Whether an id is new can't be foreseen: writing either way is cheaper than a branch that is guessed wrong.
    for e in range(len(ids)):
        node = ids[e]
        place = position[node]
        new = place == 0
        n_id[count] = node
        count += new
        place = count if new else place
        position[node] = place
        ids[e] = place - 1
    return count


@njit(cache=True, nogil=True)
def forget(ids: NDArray[np.int32], position: NDArray[np.int32]) -> None:
    """Clears `position` at `ids`: cheaper than clearing all of it."""
    for i in range(len(ids)):
        position[ids[i]] = 0


@njit(cache=True)
def _awake() -> bool:
    return True


# The first kernel that is called has numba import the larger half of itself: a third of a second, which belongs here,
# and not into the first mini-batch.
_awake()
