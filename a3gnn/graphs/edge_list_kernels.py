"""Compiled loops over a graph's edges whose working memory is per node, not per edge."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit

Integer = TypeVar("Integer", np.int32, np.int64)

#: Longest row for insertion sort, which is faster on short rows; most rows are short. Guess.
_LONGEST_INSERTION_SORT = 48


@njit(nogil=True, cache=True)
def equal_label_edges(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], labels: NDArray[np.int64]
) -> tuple[int, int]:
    """Returns the number of edges between equal labels, and between two labeled nodes."""
    equal = 0
    labeled = 0
    for v in range(len(indptr) - 1):
        if labels[v] < 0:
            continue
        for e in range(indptr[v], indptr[v + 1]):
            other = labels[indices[e]]
            if other >= 0:
                labeled += 1
                equal += other == labels[v]
    return equal, labeled


@njit(nogil=True, cache=True)
def add_by_place(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    sources: NDArray[np.int32],
    targets: NDArray[np.int32],
    values: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Adds the values of each edge, shape (n, columns), to `out`, (num_edges, columns), at its place in a CSR."""
    for e in range(len(sources)):
        first, last = indptr[targets[e]], indptr[targets[e] + 1]
        place = first + np.searchsorted(indices[first:last], sources[e])
        for column in range(values.shape[1]):
            out[place, column] += values[e, column]


@njit(nogil=True, cache=True)
def components(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> tuple[int, int]:
    """Returns the number of weakly connected components, and the nodes in the largest; it takes 4 bytes per node.

    Union-find with path halving; the root with the smaller id wins.
    """
    parent = np.arange(len(indptr) - 1).astype(np.int32)
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            a = np.int32(v)
            b = indices[e]
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b
    for v in range(len(parent)):
        parent[v] = parent[parent[v]]  # parents have smaller ids, so theirs is already the root
    found = 0
    largest = 0
    for v in range(len(parent)):  # a root is before its nodes, and counts them downwards from -1
        if parent[v] == v:
            parent[v] = -1
            found += 1
        else:
            parent[parent[v]] -= 1
    for v in range(len(parent)):
        largest = max(largest, -parent[v])
    return found, largest


@njit(nogil=True, cache=True)
def count_entries(indices: NDArray[np.int32], counts: NDArray[Any]) -> None:
    """Adds to `counts`, integers of shape (num_nodes,), how often each node is in `indices`."""
    for e in range(len(indices)):
        counts[indices[e]] += 1


@njit(nogil=True, cache=True)
def by_falling_count(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns the positions of `counts` (none negative) by decreasing count, ties by increasing position, int32.

    A counting sort: next to the result it takes 8 bytes per number up to the highest count.
    """
    places = np.zeros(counts.max() + 2, dtype=np.int64)
    for v in range(len(counts)):
        places[counts[v]] += 1
    after = 0
    for count in range(len(places) - 1, -1, -1):
        here = places[count]
        places[count] = after
        after += here
    order = np.empty(len(counts), dtype=np.int32)
    for v in range(len(counts)):
        order[places[counts[v]]] = v
        places[counts[v]] += 1
    return order


@njit(nogil=True, cache=True)
def sort_into_buckets(
    sources: NDArray[np.int32], targets: NDArray[np.int32], width: int, buckets: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns (source, target) pairs grouped by target // width, int32, shape (n, 2), and the bucket ends, int64."""
    cursors = np.zeros(buckets + 1, dtype=np.int64)
    for e in range(len(targets)):
        cursors[targets[e] // width + 1] += 1
    for bucket in range(buckets):
        cursors[bucket + 1] += cursors[bucket]
    pairs = np.empty((len(targets), 2), dtype=np.int32)
    for e in range(len(targets)):
        bucket = targets[e] // width
        pairs[cursors[bucket], 0] = sources[e]
        pairs[cursors[bucket], 1] = targets[e]
        cursors[bucket] += 1
    return pairs, cursors[:buckets]


@njit(nogil=True, cache=True)
def count_targets(pairs: NDArray[np.int32], first: int, counts: NDArray[np.int64]) -> None:
    """Adds to `counts[v - first]` the edges into each node v."""
    for e in range(len(pairs)):
        counts[pairs[e, 1] - first] += 1


@njit(nogil=True, cache=True)
def sources_by_row(pairs: NDArray[np.int32], first: int, starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns the sources of the edges into rows first, first + 1, ...; the i-th row starts at `starts[i]`.

    Edges into other rows are skipped.
    """
    cursors = starts[:-1].copy()
    entries = np.empty(starts[-1], dtype=np.int32)
    for e in range(len(pairs)):
        row = pairs[e, 1] - first
        if 0 <= row < len(cursors):
            entries[cursors[row]] = pairs[e, 0]
            cursors[row] += 1
    return entries


@njit(nogil=True, cache=True)
def sort_rows(starts: NDArray[np.int64], entries: NDArray[np.int32]) -> NDArray[np.int64]:
    """Sorts each row of `entries` in place, removes duplicates, closes the gaps, and returns the new row ends."""
    ends = np.empty(len(starts) - 1, dtype=np.int64)
    kept = 0
    for row in range(len(ends)):
        part = entries[starts[row] : starts[row + 1]]
        if len(part) > _LONGEST_INSERTION_SORT:
            part.sort()
        else:
            for i in range(1, len(part)):
                value = part[i]
                j = i
                while j > 0 and part[j - 1] > value:
                    part[j] = part[j - 1]
                    j -= 1
                part[j] = value
        for i in range(len(part)):
            if i == 0 or part[i] != part[i - 1]:
                entries[kept] = part[i]
                kept += 1
        ends[row] = kept
    return ends


@njit(nogil=True, cache=True)
def guide_of(mass: NDArray[np.float64], cells: int) -> NDArray[np.int32]:
    """Returns the guide table of `search`: the start of each of `cells` equal intervals of [0, mass[-1])."""
    guide = np.empty(cells, dtype=np.int32)
    i = 0
    for cell in range(cells):
        low = mass[-1] * cell / cells
        while i < len(mass) - 1 and mass[i] <= low:
            i += 1
        guide[cell] = i
    return guide


@njit(nogil=True, cache=True)
def search(mass: NDArray[np.float64], guide: NDArray[np.int32], point: float) -> int:
    """Returns the first i with mass[i] > point, else the last i: inversion by a guide table (Chen & Asau, 1974)."""
    cell = min(int(point / mass[-1] * len(guide)), len(guide) - 1)
    i: int = guide[cell]
    while i > 0 and mass[i - 1] > point:
        i -= 1
    while i < len(mass) - 1 and mass[i] <= point:
        i += 1
    return i


@njit(nogil=True, cache=True)
def draw_pairs(
    mass: NDArray[np.float64],
    guide: NDArray[np.int32],
    inside_share: NDArray[np.float64],
    class_of: NDArray[np.int16],
    bounds: NDArray[np.float64],
    uniform: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns pairs of positions drawn in proportion to `mass`, both int32; pairs of equal positions are dropped.

    Args:
        mass: Cumulative expected degrees, nodes grouped by class, shape (num_nodes,).
        guide: `guide_of(mass, ...)`.
        inside_share: Probability that the second end is drawn from the class of the first, shape (num_nodes,).
        class_of: Class at each position, shape (num_nodes,).
        bounds: Cumulative mass at the start of each class and at the end, shape (classes + 1,).
        uniform: Random numbers in [0, 1), shape (3, n): for the first end, for whether the second is in its class,
            and for the second end.
    """
    total = mass[-1]
    count = uniform.shape[1]
    first, second = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    kept = 0
    for e in range(count):
        a = search(mass, guide, uniform[0, e] * total)
        start, end = bounds[class_of[a]], bounds[class_of[a] + 1]
        if uniform[1, e] < inside_share[a]:
            point = start + uniform[2, e] * (end - start)
        else:
            point = end + uniform[2, e] * (total - (end - start))
        if point >= total:
            point -= total  # exact, as point < 2 * total
        b = search(mass, guide, point)
        if a != b:
            first[kept] = a
            second[kept] = b
            kept += 1
    return first[:kept], second[:kept]


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
