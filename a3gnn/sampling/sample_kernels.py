"""Compiled kernels of the sampler: bounds of rows, hops, trees, picks. All release the GIL.

A hop is sampled in chunks of rows, in passes over bounds, in-neighbors and the relabeling map. Each pass prefetches
the data of the next one, so reads that are far apart overlap instead of waiting for each other. A cached in-neighbor
weighs `bias`, any other 1. A row's cached in-neighbors come first, so two counts describe the whole row (two buckets).
A hop's rows lie tree by tree, and so do the nodes that it finds: the relabeling map holds one tree at a time. Where
there are types or times, a pass before each hop lists the rows of its nodes (`rows_of`); otherwise rows are nodes.

A NamedTuple costs nothing between kernels. As an argument from Python it costs microseconds, so `sample` takes none.
numba's cache pickles the classes of a kernel's arguments, and fails to load after one is renamed. So kernels that take
NamedTuples are compiled as part of `sample` and have no `cache=True` themselves.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.random import below, fold, hop_key, uniform
from a3gnn.sampling.relabeling import forget, know, relabel
from a3gnn.storage.compiled import njit
from a3gnn.storage.intrinsics import prefetch

Integer = TypeVar("Integer", np.int32, np.int64)
#: Most edges per mini-batch, because positions in its arrays are int32.
MAX_EDGES = 2**31 - 1
# Rows between a prefetch and its read. Guess.
_AHEAD = 16
#: Rows per chunk: the fastest in a prototype, on a graph of 2.4 million nodes.
CHUNK = 32


class Csr(NamedTuple):
    """Edges as CSR by target and relation, as in `Edges`; empty arrays mean that all in-neighbors are alike."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    num_cached: NDArray[np.int32]
    weights: NDArray[np.float64]
    times: NDArray[np.int32]


class HopRows(NamedTuple):
    """The rows of a hop's nodes, int32.

    Attributes:
        ids: Rows of the graph's CSR.
        nodes: Id of each row's node within its type, which keys random numbers.
        relations: Relation of each row; empty if there is one.
        targets: Place of each row's node in n_id; empty if it is not needed.
        until: Largest rank of time that each row may show; empty if it may show all.
        salts: Numbers that tell apart rows of one node: one for each row, or one for all; 0 changes nothing.
        starts: First row of each tree, then their number, int64.
    """

    ids: NDArray[np.int32]
    nodes: NDArray[np.int32]
    relations: NDArray[np.int32]
    targets: NDArray[np.int32]
    until: NDArray[np.int32]
    salts: NDArray[np.int32]
    starts: NDArray[np.int64]


class RowBounds(NamedTuple):
    """The start of each row of a hop in `indices` (int64), its degree and its cached in-neighbors (int32)."""

    begin: NDArray[np.int64]
    degree: NDArray[np.int32]
    cached: NDArray[np.int32]


class HopDraw(NamedTuple):
    """Parameters of the draw of one hop."""

    fanouts: NDArray[np.int64]  # in-neighbors per row of each relation, int64; below 0 for all
    keys: NDArray[np.uint64]  # key of the random numbers of each relation in this hop, uint64
    timed: NDArray[np.bool_]  # whether each relation has times, bool
    bias: float  # weight of a cached in-neighbor; others weigh 1
    replace: bool  # whether an in-neighbor may be drawn more than once
    last: bool  # whether to draw among the latest `fanout` in-neighbors of a row, in place of all that it may show


@njit(nogil=True)
def rows_of(
    csr: Csr,
    nodes: NDArray[np.int32],
    starts: NDArray[np.int64],
    layout: NDArray[np.int64],
    until: NDArray[np.int32],
    salts: NDArray[np.int32],
    typed: bool,
) -> HopRows:
    """Returns the rows of a hop's `nodes`, node by node, and relation by relation for each.

    Rows without an edge are left out, but for a graph without types, whose rows are nodes.

    Args:
        csr: The edges.
        nodes: Ids through all types.
        starts: First of the nodes of each tree, then their number.
        layout: Of `Schema`.
        until: Of each tree, as in `HopRows`; empty without times.
        salts: One for each node, or one for all.
        typed: Whether the graph has types.
    """
    first, first_row, first_relation, indptr = layout[0], layout[1], layout[2], csr.indptr
    count, kinds = 0, np.empty(len(nodes), dtype=np.uint16)
    for i in range(len(nodes)):
        kind = 0
        while nodes[i] >= first[kind + 1]:
            kind += 1
        kinds[i] = kind
        width = first_relation[kind + 1] - first_relation[kind]
        count += width
        prefetch(indptr, first_row[kind] + (nodes[i] - first[kind]) * width)
    ids, owners = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    relations, targets = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    bound = np.empty(count if len(until) > 0 else 0, dtype=np.int32)
    marks, ends, row = np.zeros(count if len(salts) > 1 else 1, dtype=np.int32), np.zeros_like(starts), 0
    for tree in range(len(starts) - 1):
        for i in range(starts[tree] - starts[0], starts[tree + 1] - starts[0]):
            kind, node = kinds[i], nodes[i] - first[kinds[i]]
            width = first_relation[kind + 1] - first_relation[kind]
            begin = first_row[kind] + node * width
            for k in range(width):
                ids[row], owners[row], targets[row] = begin + k, node, starts[0] + i
                relations[row] = first_relation[kind] + k
                if len(bound) > 0:
                    bound[row] = until[tree]
                if len(salts) > 1:
                    marks[row] = salts[i]
                row += not typed or indptr[begin + k] < indptr[begin + k + 1]
        ends[tree + 1] = row
    return HopRows(ids[:row], owners[:row], relations[:row], targets[:row], bound[:row], marks, ends)


@njit(nogil=True)
def row_bounds(csr: Csr, rows: HopRows, draw: HopDraw, bounds: RowBounds) -> int:
    """Fills `bounds` for each of `rows`.

    Returns:
        The number of in-neighbors that all rows take together, at most.
    """
    indptr, num_cached, (begin, degree, cached), ids = csr.indptr, csr.num_cached, bounds, rows.ids
    biased, typed, timed = len(num_cached) > 0, len(rows.relations) > 0, len(rows.until) > 0
    total, fanout, relation = 0, draw.fanouts[0] if len(draw.fanouts) > 0 else 0, 0
    for i in range(len(ids)):
        if i + _AHEAD < len(ids):
            prefetch(indptr, np.int64(ids[i + _AHEAD]))
            if biased:
                prefetch(num_cached, np.int64(ids[i + _AHEAD]))
        v = ids[i]
        begin[i] = indptr[v]
        degree[i] = indptr[v + 1] - indptr[v]
        cached[i] = num_cached[v] if biased else 0
        if typed:
            relation = rows.relations[i]
            fanout = draw.fanouts[relation]
            degree[i] = 0 if fanout == 0 else degree[i]
        if timed and draw.timed[relation]:
            shown = csr.times[begin[i] : begin[i] + degree[i]]
            degree[i] = np.searchsorted(shown, rows.until[i], side="right")
            if draw.last and 0 <= fanout < degree[i]:
                begin[i] += degree[i] - fanout
                degree[i] = fanout
        total += degree[i] if fanout < 0 else fanout if draw.replace else min(fanout, degree[i])
    return total


@njit(nogil=True, inline="always")
def pick_rows(
    low: int,
    high: int,
    csr: Csr,
    rows: HopRows,
    bounds: RowBounds,
    draw: HopDraw,
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
) -> None:
    """Picks in-neighbors of a hop's rows [low, high): writes their ends to `indptr`, the picks' offsets to `edges`.

    A row with at most `fanout` in-neighbors gives all of them, unless `draw` replaces.
    """
    replace, salts, (begin, degree, cached) = draw.replace, rows.salts, bounds
    indices, weights, nodes, relations = csr.indices, csr.weights, rows.nodes, rows.relations
    fanouts, keys, typed = draw.fanouts, draw.keys, len(relations) > 0
    plain, salted = len(weights) == 0 and not replace, len(salts) > 1 or salts[0] > 0
    fanout, key = (0, np.uint64(0)) if typed else (fanouts[0], keys[0])
    for i in range(low, high):
        if typed:
            fanout, key = fanouts[relations[i]], keys[relations[i]]
        whole = fanout < 0 or degree[i] == 0 or (degree[i] <= fanout and not replace)
        indptr[i + 1] = indptr[i] + (degree[i] if whole else fanout)
        picks = edges[indptr[i] - indptr[0] : indptr[i + 1] - indptr[0]]
        if whole:
            for j in range(len(picks)):
                picks[j] = j
                prefetch(indices, begin[i] + j)
            continue
        stream = fold(key, np.uint64(nodes[i]))
        if salted and salts[i % len(salts)] > 0:
            stream = fold(stream, np.uint64(salts[i % len(salts)]))
        if plain:
            pick_two_bucket(stream, cached[i], draw.bias, indices, begin[i], degree[i], picks)
            continue
        if len(weights) > 0:
            own = weights[begin[i] : begin[i] + degree[i]]
            count = pick_weighted_again(stream, own, picks) if replace else pick_weighted(stream, own, picks)
            indptr[i + 1] = indptr[i] + count
        else:
            for j in range(fanout):
                picks[j] = below(stream, j, degree[i])
                prefetch(indices, begin[i] + picks[j])


@njit(nogil=True)
def sample_rows(
    low: int,
    high: int,
    csr: Csr,
    rows: HopRows,
    bounds: RowBounds,
    draw: HopDraw,
    position: NDArray[np.int32],
    n_id: NDArray[np.int32],
    count: int,
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
    places: NDArray[np.int64],
) -> int:
    """Samples a hop's rows [low, high): writes their local in-neighbors to `edges` and their ends to `indptr`.

    `indptr[0]` is the number of edges from earlier hops. `position` is the relabeling map; unseen nodes are appended to
    `n_id` from `count` on. `places`, unless empty, gets each edge's place in the graph's `indices`.

    Returns:
        The new count of `n_id`.
    """
    indices, begin, with_places = csr.indices, bounds.begin, len(places) > 0
    for start in range(low, high, CHUNK):
        end = min(start + CHUNK, high)
        pick_rows(start, end, csr, rows, bounds, draw, indptr, edges)
        for i in range(start, end):
            for e in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
                place = begin[i] + edges[e]
                if with_places:
                    places[e] = place
                edges[e] = indices[place]
                prefetch(position, np.int64(edges[e]))
        count = relabel(edges[indptr[start] - indptr[0] : indptr[end] - indptr[0]], position, n_id, count)
    return count


@njit(nogil=True)
def sample_trees(
    hop: int,
    starts: NDArray[np.int64],
    csr: Csr,
    rows: HopRows,
    bounds: RowBounds,
    draw: HopDraw,
    position: NDArray[np.int32],
    n_id: NDArray[np.int32],
    indptr: NDArray[np.int32],
    edges: NDArray[np.int32],
    places: NDArray[np.int64],
) -> None:
    """Samples one hop of each tree as `sample_rows` does; `starts` are those of `sample`, and get the next row."""
    count = starts[hop, -1]
    for tree in range(starts.shape[1] - 1):
        rows.salts[0] = tree
        for known in range(hop + 1):
            know(n_id[starts[known, tree] : starts[known, tree + 1]], starts[known, tree], position)
        low, high = rows.starts[tree], rows.starts[tree + 1]
        count = sample_rows(low, high, csr, rows, bounds, draw, position, n_id, count, indptr, edges, places)
        starts[hop + 1, tree + 1] = count
        for known in range(hop + 2):
            forget(n_id[starts[known, tree] : starts[known, tree + 1]], position)


@njit(cache=True, nogil=True)
def sample(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    num_cached: NDArray[np.int32],
    weights: NDArray[np.float64],
    times: NDArray[np.int32],
    layout: NDArray[np.int64],
    words: NDArray[np.uint64],
    timed: NDArray[np.bool_],
    fanouts: NDArray[np.int64],
    bias: float,
    replace: bool,
    last: bool,
    disjoint: bool,
    with_places: bool,
    seed: np.uint64,
    epoch: np.uint64,
    batch: np.uint64,
    seeds: NDArray[np.int32],
    until: NDArray[np.int32],
    position: NDArray[np.int32],
) -> tuple[
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
]:
    """Samples all hops from `seeds` in one call, because a call from Python costs as much as hundreds of rows.

    Args:
        indptr: Of `Edges`.
        indices: Of `Edges`.
        num_cached: Of `Edges`.
        weights: Of `Edges`.
        times: Ranks of `EdgeTimes`; empty without times.
        layout: Of `Schema`.
        words: Of `Schema`.
        timed: As in `HopDraw`.
        fanouts: In-neighbors per node, the seeds' hop first; below 0 for all. Shape (hops, num_relations).
        bias: As in `HopDraw`.
        replace: As in `HopDraw`.
        last: As in `HopDraw`.
        disjoint: Whether each seed has its own tree; otherwise there is one tree of all seeds.
        with_places: Whether to return each edge's place in `indices`. Only then may seeds of one tree be repeated.
        seed: Keys the random numbers, with `epoch` and `batch`.
        epoch: As `seed`.
        batch: As `seed`.
        seeds: In range. A repeated seed has several rows; edges from it come from the first one.
        until: Largest rank of time that each seed's tree may show; empty if trees may show all.
        position: Zeros, int32, shape (num_nodes,); zeros again on return unless a hop is missing.

    Returns:
        n_id, indptr, indices, each edge's place, and the starts in n_id of the nodes that each hop found for each tree,
        shape (hops + 1, trees + 1), whose last column is the nodes known after each hop. Last, where there are types,
        each row's place in n_id and relation, shape (2, num_rows); rows without an edge are left out then. Two cases
        stop early: after more than `MAX_EDGES` edges, the starts are 0; for seeds that must not be repeated, the first
        row ends at the number of distinct ones.
    """
    csr, count, none = Csr(indptr, indices, num_cached, weights, times), len(seeds), np.empty(0, dtype=np.int32)
    salts, keys = np.zeros(1 if disjoint else count, dtype=np.int32), np.empty(len(words), dtype=np.uint64)
    starts = np.zeros((len(fanouts) + 1, (count if disjoint else 1) + 1), dtype=np.int64)
    starts[0] = np.arange(count + 1) if disjoint else np.array([0, know(seeds, 0, position)])
    n_id, pointers = grown(seeds, count, count + 1), np.zeros(1, dtype=np.int32)
    edges, places, listed = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64), np.empty((2, 0), dtype=np.int32)
    if starts[0, -1] < count and not with_places:
        return n_id, pointers, edges, places, starts, listed
    typed = len(words) != 1 or words[0] != 0
    for i in range(1, len(salts)):
        salts[i] = 0 if position[seeds[i]] == i + 1 else i
    starts[0, -1] = count
    for hop in range(len(fanouts)):
        nodes, known, used = n_id[starts[hop, 0] : count], len(pointers) - 1, np.int64(pointers[-1])
        if typed or len(until) > 0:
            rows = rows_of(csr, nodes, starts[hop], layout, until, salts, typed)
        else:  # a node has one row
            rows = HopRows(nodes, nodes, none, none, none, salts, starts[hop] - starts[hop, 0])
        for relation in range(len(words)):
            keys[relation] = hop_key(seed, epoch, batch, np.uint64(hop) | (words[relation] << np.uint64(32)))
        draw = HopDraw(fanouts[hop], keys, timed, bias, replace, last)
        begin, degree = np.empty(len(rows.ids), dtype=np.int64), np.empty(len(rows.ids), dtype=np.int32)
        bounds = RowBounds(begin, degree, np.empty(len(rows.ids), dtype=np.int32))
        total = row_bounds(csr, rows, draw, bounds)
        if used + total > MAX_EDGES:
            starts[:] = 0
            return n_id, pointers, edges, places, starts, listed
        pointers, edges = grown(pointers, known + 1, known + 1 + len(begin)), grown(edges, used, used + total)
        places = grown(places, used, used + total) if with_places else places
        n_id = grown(n_id, count, (count + total if disjoint else min(count + total, len(seeds) + len(position))) + 1)
        if typed:
            more = np.empty((2, known + len(begin)), dtype=np.int32)
            more[:, :known], more[0, known:], more[1, known:] = listed, rows.targets, rows.relations
            listed = more
        own = pointers[known:], edges[used:], places[used:]
        starts[hop + 1, 0] = count
        if disjoint:
            sample_trees(hop, starts, csr, rows, bounds, draw, position, n_id, *own)
        else:
            starts[hop + 1, 1] = sample_rows(0, len(begin), csr, rows, bounds, draw, position, n_id, count, *own)
        count, salts = starts[hop + 1, -1], salts[:1]
    if not disjoint:
        forget(n_id[:count], position)
    used = np.int64(pointers[-1])
    return n_id[:count], pointers, edges[:used], places[:used], starts, listed


@njit(cache=True, nogil=True)
def grown(array: NDArray[Integer], used: int, capacity: int) -> NDArray[Integer]:
    """Returns a copy of the first `used` entries with `capacity` entries; the new entries are not initialized."""
    larger = np.empty(capacity, dtype=array.dtype)
    larger[:used] = array[:used]
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


@njit(cache=True, nogil=True)
def induced_edges(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_id: NDArray[np.int32],
    rows: NDArray[np.int32],
    position: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Returns all edges between the nodes `n_id`.

    Args:
        indptr: CSR of all edges, by target and relation.
        indices: CSR of all edges, by target and relation.
        n_id: Global ids; edges from a repeated node come from its first position.
        rows: The rows of `n_id`, node by node.
        position: Zeros, int32, shape (num_nodes,); zeros again on return.

    Returns:
        indptr and sources as positions in `n_id`, int32, shapes (len(rows) + 1,) and (num_edges,), and each edge's
        place in `indices`, int64.
    """
    know(n_id, 0, position)
    ends = np.zeros(len(rows) + 1, dtype=np.int32)
    for i in range(len(rows)):
        ends[i + 1] = ends[i]
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            ends[i + 1] += position[indices[e]] > 0
    sources, places = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1], dtype=np.int64)
    count = 0
    for i in range(len(rows)):
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            if position[indices[e]] > 0:
                sources[count] = position[indices[e]] - 1
                places[count] = e
                count += 1
    forget(n_id, position)
    return ends, sources, places
