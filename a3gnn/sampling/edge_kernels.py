"""Compiled kernels that sample edges: with replacement, by weight or in disjoint trees. All release the GIL.

Without these options they draw the same as `sample_kernels.sample_hops`, and also report each edge's place. Others
convert edge lists to CSR by target and back, and find the edges between given nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.random import below, fold, hop_key, uniform
from a3gnn.sampling.relabeling import forget, know, relabel
from a3gnn.sampling.sample_kernels import (
    CHUNK,
    MAX_EDGES,
    HopDraw,
    RowBounds,
    RowRange,
    grown,
    pick_rows,
    pick_two_bucket,
    row_bounds,
)
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import prefetch


class EdgeDraw(NamedTuple):
    """Parameters of the draw of one hop's edges.

    Attributes:
        fanout: In-neighbors per row; below 0 for all.
        key: Key of the hop's random numbers.
        bias: Weight of a cached in-neighbor; others weigh 1.
        replace: Whether an in-neighbor may be drawn more than once.
    """

    fanout: int
    key: np.uint64
    bias: float
    replace: bool


class EdgeRow(NamedTuple):
    """One row of a hop: its start in `indices`, its degree and its cached in-neighbors, which come first."""

    begin: int
    degree: int
    cached: int


@njit(nogil=True)
def pick_edges(
    stream: np.uint64,
    draw: EdgeDraw,
    indices: NDArray[np.int32],
    weights: NDArray[np.float64],
    row: EdgeRow,
    picks: NDArray[np.int32],
) -> int:
    """Writes the offsets of a row's picks to `picks`, which may be longer, and returns their number.

    A row with at most `fanout` edges gives all of them, unless `draw` replaces.
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

    Each pick takes one of the remaining offsets with a probability proportional to its weight: the largest keys u ** (1
    / w), compared by their logarithms. An offset of weight 0 is never picked.

    Returns:
        The number of picks; fewer than len(picks) if fewer weights are above 0.
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
    """Fills `picks` with offsets into `weights`, drawn independently with probabilities proportional to the weights.

    Returns:
        The number of picks; 0 if no weight is above 0.
    """
    totals = np.cumsum(weights)
    if totals[-1] == 0.0:
        return 0
    for j in range(len(picks)):
        picks[j] = np.searchsorted(totals, uniform(stream, j) * totals[-1], side="right")
    return len(picks)


@njit(nogil=True)
def _pick_rows(
    rows: RowRange,
    indices: NDArray[np.int32],
    weights: NDArray[np.float64],
    nodes: NDArray[np.int32],
    bounds: RowBounds,
    draw: EdgeDraw,
    salt: int,
    position: NDArray[np.int32],
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
) -> None:
    """Picks edges of a hop's `rows`: writes the rows' ends to `indptr`, and the picks' offsets to `edges`.

    A row's random numbers are keyed by its node. `salt` above 0 also folds in the number of a tree. `salt` below 0
    folds in the row's number if its node is a repeated seed.
    """
    for i in range(rows.low, rows.high):
        stream = fold(draw.key, np.uint64(nodes[i]))
        if salt > 0:
            stream = fold(stream, np.uint64(salt))
        elif salt < 0 and position[nodes[i]] != i + 1:
            stream = fold(stream, np.uint64(i))
        row = EdgeRow(bounds.begin[i], bounds.degree[i], bounds.cached[i])
        picks = edges[indptr[i] - indptr[0] :]
        indptr[i + 1] = indptr[i] + pick_edges(stream, draw, indices, weights, row, picks)


@njit(nogil=True)
def _sample_rows(
    rows: RowRange,
    indices: NDArray[np.int32],
    weights: NDArray[np.float64],
    nodes: NDArray[np.int32],
    bounds: RowBounds,
    draw: EdgeDraw,
    salt: int,
    position: NDArray[np.int32],
    n_id: NDArray[np.int32],
    count: int,
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
    places: NDArray[np.int64],
) -> int:
    """Samples a hop's `rows`: writes local in-neighbors to `edges`, their places to `places`, rows' ends to `indptr`.

    Arguments and result are the same as for `sample_kernels.sample_rows`; `salt` is the same as for `_pick_rows`.
    """
    # Uses the plain sampler's pass if it draws the same.
    plain = HopDraw(draw.fanout, draw.key, draw.bias)
    is_plain = salt == 0 and len(weights) == 0 and not draw.replace
    for low in range(rows.low, rows.high, CHUNK):
        high = min(low + CHUNK, rows.high)
        chunk = RowRange(low, high)
        if is_plain:
            pick_rows(chunk, indices, nodes, bounds, plain, indptr, edges)
        else:
            _pick_rows(chunk, indices, weights, nodes, bounds, draw, salt, position, indptr, edges)
        for i in range(low, high):
            for e in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
                places[e] = bounds.begin[i] + edges[e]
                edges[e] = indices[places[e]]
                prefetch(position, np.int64(edges[e]))
        count = relabel(edges[indptr[low] - indptr[0] : indptr[high] - indptr[0]], position, n_id, count)
    return count


@njit(cache=True, nogil=True)
def sample_edges(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    num_cached: NDArray[np.int32],
    weights: NDArray[np.float64],
    fanouts: NDArray[np.int64],
    bias: float,
    replace: bool,
    disjoint: bool,
    seed: np.uint64,
    epoch: np.uint64,
    batch: np.uint64,
    seeds: NDArray[np.int32],
    position: NDArray[np.int32],
) -> tuple[
    NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]
]:
    """Samples all hops from `seeds`.

    Each tree's nodes are relabeled separately: there is one tree of all seeds, or with `disjoint` one for each seed. A
    hop's rows lie tree by tree, so the nodes that it finds do too, and `position` needs to hold one tree at a time.

    Args:
        indptr: Of an `Adjacency`; an edge may occur more than once.
        indices: Of an `Adjacency`.
        num_cached: Of an `Adjacency`.
        weights: Per edge; empty if all weigh the same.
        fanouts: In-neighbors per node, the seeds' hop first; below 0 for all.
        bias: Weight of a cached in-neighbor; others weigh 1.
        replace: Whether an in-neighbor may be drawn more than once.
        disjoint: Whether each seed has its own tree.
        seed: Keys the random numbers, with `epoch` and `batch`.
        epoch: As `seed`.
        batch: As `seed`.
        seeds: In range. A repeated seed has several rows; edges from it come from the first one.
        position: Zeros, int32, shape (num_nodes,); zeros again on return unless a hop is missing.

    Returns:
        n_id, indptr, indices, each edge's place in the graph's `indices`, the starts in n_id of the nodes that each hop
        found for each tree, shape (hops + 1, trees + 1), and the nodes known after each hop. A hop with more than
        `MAX_EDGES` edges in total stops early and leaves the sizes of later hops 0.
    """
    trees = len(seeds) if disjoint else 1
    starts, sizes = np.zeros((len(fanouts) + 1, trees + 1), dtype=np.int64), np.zeros(len(fanouts) + 1, dtype=np.int64)
    n_id, count = grown(seeds, len(seeds) + 1), len(seeds)
    for tree in range(1, trees + 1):
        starts[0, tree] = tree if disjoint else len(seeds)
    pointers, edges, places = np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
    sizes[0] = count
    if not disjoint:
        know(n_id[:count], 0, position)
    for hop in range(len(fanouts)):
        first, rows, used = starts[hop, 0], len(pointers) - 1, np.int64(pointers[-1])
        nodes = n_id[first:count]
        begin, degree = np.empty(len(nodes), dtype=np.int64), np.empty(len(nodes), dtype=np.int32)
        bounds = RowBounds(begin, degree, np.empty(len(nodes), dtype=np.int32))
        total = row_bounds(indptr, num_cached, nodes, fanouts[hop], bounds)
        if replace and fanouts[hop] > 0:
            total = fanouts[hop] * len(nodes)
        if used + total > MAX_EDGES:
            return n_id, pointers, edges, places, starts, sizes
        pointers = grown(pointers, rows + 1 + len(nodes))
        edges, places = grown(edges[:used], used + total), grown(places[:used], used + total)
        most = count + total if disjoint else min(count + total, len(seeds) + len(position))
        n_id = grown(n_id[:count], most + 1)
        draw = EdgeDraw(fanouts[hop], hop_key(seed, epoch, batch, np.uint64(hop)), bias, replace)
        own_pointers, own_edges, own_places = pointers[rows:], edges[used:], places[used:]
        for tree in range(trees):
            if disjoint:
                for h in range(hop + 1):
                    know(n_id[starts[h, tree] : starts[h, tree + 1]], starts[h, tree], position)
            span, salt = RowRange(starts[hop, tree] - first, starts[hop, tree + 1] - first), tree
            if not disjoint:
                salt = -1 if hop == 0 else 0
            starts[hop + 1, tree] = count
            count = _sample_rows(
                span,
                indices,
                weights,
                nodes,
                bounds,
                draw,
                salt,
                position,
                n_id,
                count,
                own_pointers,
                own_edges,
                own_places,
            )
            if disjoint:
                forget(n_id[starts[hop + 1, tree] : count], position)
                for h in range(hop + 1):
                    forget(n_id[starts[h, tree] : starts[h, tree + 1]], position)
        starts[hop + 1, trees] = count
        sizes[hop + 1] = count
    forget(n_id[:count], position)
    used = np.int64(pointers[-1])
    return n_id[:count], pointers, edges[:used], places[:used], starts, sizes


@njit(cache=True, nogil=True)
def is_by_target(sources: NDArray[Any], targets: NDArray[Any]) -> bool:
    """Returns whether targets ascend, and sources ascend among equal targets."""
    for e in range(1, len(targets)):
        if targets[e] < targets[e - 1] or (targets[e] == targets[e - 1] and sources[e] < sources[e - 1]):
            return False
    return True


@njit(cache=True, nogil=True)
def places_by_target(sources: NDArray[Any], targets: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    """Returns the places of edges, int64, by target, then source, then original order: a radix sort of two passes."""
    by_source = _ordered_by(sources, np.arange(len(sources)), num_nodes)
    order: NDArray[np.int64] = _ordered_by(targets, by_source, num_nodes)
    return order


@njit(nogil=True)
def _ordered_by(nodes: NDArray[Any], places: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Returns the `places` of edges sorted by their `nodes`; the sort is stable."""
    order, ends = np.empty(len(places), dtype=np.int64), np.zeros(num_nodes + 1, dtype=np.int64)
    for e in range(len(nodes)):
        ends[nodes[e] + 1] += 1
    for v in range(num_nodes):
        ends[v + 1] += ends[v]
    for e in places:
        order[ends[nodes[e]]] = e
        ends[nodes[e]] += 1
    return order


@njit(cache=True, nogil=True)
def write_edge_index(indptr: NDArray[np.int32], indices: NDArray[np.int32], edge_index: NDArray[Any]) -> None:
    """Writes a CSR's sources and targets to `edge_index`, integers of shape (2, num_edges)."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            edge_index[0, e] = indices[e]
            edge_index[1, e] = i


@njit(cache=True, nogil=True)
def take_ids(ids: NDArray[Any], places: NDArray[np.int64]) -> None:
    """Replaces `places` by the `ids` at these places."""
    for e in range(len(places)):
        places[e] = ids[places[e]]


@njit(cache=True, nogil=True)
def induced_edges(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], n_id: NDArray[np.int32], position: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Returns all edges between the nodes `n_id`.

    Args:
        indptr: CSR of all edges, by target.
        indices: CSR of all edges, by target.
        n_id: Global ids; edges from a repeated node come from its first position.
        position: Zeros, int32, shape (num_nodes,); zeros again on return.

    Returns:
        indptr and sources as positions in `n_id`, int32, shapes (len(n_id) + 1,) and (num_edges,), and each edge's
        place in `indices`, int64.
    """
    know(n_id, 0, position)
    ends = np.zeros(len(n_id) + 1, dtype=np.int32)
    for i in range(len(n_id)):
        ends[i + 1] = ends[i]
        for e in range(indptr[n_id[i]], indptr[n_id[i] + 1]):
            ends[i + 1] += position[indices[e]] > 0
    sources, places = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1], dtype=np.int64)
    count = 0
    for i in range(len(n_id)):
        for e in range(indptr[n_id[i]], indptr[n_id[i] + 1]):
            if position[indices[e]] > 0:
                sources[count] = position[indices[e]] - 1
                places[count] = e
                count += 1
    forget(n_id, position)
    return ends, sources, places
