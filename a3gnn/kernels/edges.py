"""Compiled kernels that order edges: CSR by target and by source, self loops, degrees. All release the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.kernels.sums import Csr, Ints
from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def extent(sources: NDArray[Any], targets: NDArray[Any]) -> Any:
    """Returns the lowest end, the highest source, the highest target, and whether targets ascend."""
    lowest, top_source, top_target, ascending = np.int64(0), np.int64(-1), np.int64(-1), True
    for e in range(len(sources)):
        source, target = np.int64(sources[e]), np.int64(targets[e])
        lowest = min(lowest, min(source, target))
        top_source = max(top_source, source)
        if target < np.int64(targets[max(e - 1, 0)]):
            ascending = False
        top_target = max(top_target, target)
    return lowest, top_source, top_target, ascending


@njit(cache=True, nogil=True)
def count_ends(ends: NDArray[Any], indptr: Ints) -> None:
    """Writes the start of each node's edges, shape (num_nodes + 1,), from one end of each edge."""
    indptr[:] = 0
    for end in ends:
        indptr[end + 1] += 1
    for i in range(1, len(indptr)):
        indptr[i] += indptr[i - 1]


@njit(cache=True, nogil=True)
def place_edges(sources: NDArray[Any], targets: NDArray[Any], indptr: Ints, indices: Ints, order: Ints) -> None:
    """Sorts edges by target, stably: writes their sources and their places in the given order."""
    place = indptr[:-1].copy()
    for e in range(len(sources)):
        at = place[targets[e]]
        place[targets[e]] = at + 1
        indices[at] = sources[e]
        order[at] = e


@njit(cache=True, nogil=True)
def order_of(ends: NDArray[Any], num_nodes: int) -> tuple[Ints, Ints]:
    """Returns the start of each node's edges, from one end of each edge, and the edges in this order, stable."""
    indptr, unused = np.empty(num_nodes + 1, dtype=np.int32), np.empty(len(ends), dtype=np.int32)
    order = np.empty(len(ends), dtype=np.int32)
    count_ends(ends, indptr)
    place_edges(ends, ends, indptr, unused, order)
    return indptr, order


@njit(cache=True, nogil=True)
def join_relations(
    ends: tuple[NDArray[Any], NDArray[Any]],
    table: NDArray[np.int64],
    limits: tuple[int, int],
    costs: tuple[float, float, float, float, float],
    averages: bool,
    sums: tuple[Ints, Ints, NDArray[np.int64]],
    slots: tuple[Ints, Ints, NDArray[Any]],
    maps_first: NDArray[np.bool_],
) -> tuple[int, int]:
    """Writes how relations into one type are summed: each in the cheaper order of its map and its sum.

    A relation whose map comes last has sums, one per target with edges. A slot is a mapped row that a target adds: a
    mapped sum, or a mapped source of a relation whose map comes first. Mapped rows count through all relations.

    Args:
        ends: Sources and targets of the edges, relation after relation.
        table: For each relation its number of edges, its matrix of sources, the number of its sources and how many of
            them that matrix has, shape (num_relations, 4). The number of mapped rows is written to the last column.
        limits: Number of targets, and of those that are computed; these come first.
        costs: Of a source and an edge if the map comes first; of a source, a sum and an edge if it comes last.
        averages: Whether sums are means.
        sums: Written: starts of the sums, shape (num_edges + 1,), their sources among joint rows, (num_edges,), and the
            first joint row of each matrix, or -1 if there is none, (num_matrices,).
        slots: Written: target, mapped row and weight of each slot, each of shape (num_edges,).
        maps_first: Written, shape (num_relations,).

    Returns:
        The numbers of sums and slots; -1 if an end is out of range, or a source is not in its matrix.
    """
    (sources, targets), (num_dst, limit), (indptr, indices, bases) = ends, limits, sums
    (nodes, mapped, weights), row, at, slot, begin, top, first = slots, 0, 0, 0, 0, 0, 0
    bases[:] = -1
    for r in range(len(table)):
        edges, matrix, num_src, present = table[r]
        heads, tails = sources[begin : begin + edges], targets[begin : begin + edges]
        begin += edges
        lowest, top_source, top_target, ascending = extent(heads, tails)
        if lowest < 0 or top_source >= num_src or top_target >= num_dst:
            return -1, -1
        if not ascending:
            order = order_of(tails, num_dst)[1]
            heads, tails = heads[order], tails[order]
        edges = np.searchsorted(tails, limit)
        rows, top_source = np.int64(0), np.int64(-1)
        for e in range(edges):
            rows += e == 0 or tails[e] != tails[e - 1]
            top_source = max(top_source, np.int64(heads[e]))
        if top_source >= present:
            return -1, -1
        by_source = present * costs[0] + edges * costs[1]
        maps_first[r] = by_source < present * costs[2] + rows * costs[3] + edges * costs[4]
        if not maps_first[r] and bases[matrix] < 0:
            bases[matrix], top = top, top + present
        e = 0
        while e < edges:
            stop = e + 1
            while stop < edges and tails[stop] == tails[e]:
                stop += 1
            if maps_first[r]:
                for i in range(e, stop):
                    nodes[slot], mapped[slot] = tails[e], first + heads[i]
                    weights[slot] = 1 / (stop - e) if averages else 1
                    slot += 1
            else:
                nodes[slot], mapped[slot], weights[slot] = tails[e], first, 1
                first, slot, indptr[row], row = first + 1, slot + 1, at, row + 1
                for i in range(e, stop):
                    indices[at] = bases[matrix] + heads[i]
                    at += 1
            e = stop
        table[r, 3] = present if maps_first[r] else rows
        first += present if maps_first[r] else 0
    indptr[row] = at
    return row, slot


@njit(cache=True, nogil=True)
def add_loops(csr: Csr, loops: int, out: Csr) -> None:
    """Writes the CSR without self loops and with one of nodes 0 to `loops`, at the end of each row.

    Args:
        csr: The edges; slots are places in the edge list.
        loops: Number of nodes that get a self loop.
        out: Written; slots are places in the list of the remaining edges, in their order, and then the loops.
    """
    (indptr, indices, order), (out_indptr, out_indices, out_order) = csr, out
    edges, rows = len(indices), len(indptr) - 1
    rank = np.ones(edges, dtype=np.int32)
    for i in range(rows):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] == i:
                rank[order[e] if len(order) else e] = 0
    kept = 0
    for e in range(edges):
        kept += rank[e]
        rank[e] = kept - 1
    at = 0
    out_indptr[0] = 0
    for i in range(rows):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                out_indices[at] = indices[e]
                out_order[at] = rank[order[e] if len(order) else e]
                at += 1
        if i < loops:
            out_indices[at] = i
            out_order[at] = kept + i
            at += 1
        out_indptr[i + 1] = at


@njit(cache=True, nogil=True)
def count_in_edges(indptr: Ints, indices: Ints, degrees: NDArray[np.float32]) -> None:
    """Writes each destination's number of in-neighbors other than itself, and 0 for the other nodes."""
    rows = len(indptr) - 1
    for i in range(rows):
        count = 0
        for e in range(indptr[i], indptr[i + 1]):
            count += indices[e] != i
        degrees[i] = count
    degrees[rows:] = np.float32(0)


@njit(cache=True, nogil=True)
def by_source(indptr: Ints, indices: Ints, starts: Ints, targets: Ints, edges: Ints) -> None:
    """Sorts edges by source, stably, so that gradients are summed in the order of the edges.

    Args:
        indptr: Start of each target's edges.
        indices: The edges' sources.
        starts: Written: the start of each source's edges, shape (num_src + 1,).
        targets: Written: the sorted edges' targets, shape (num_edges,).
        edges: Written: the sorted edges, shape (num_edges,).
    """
    count_ends(indices, starts)
    place = starts[:-1].copy()
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            at = place[indices[e]]
            place[indices[e]] = at + 1
            edges[at] = e
            targets[at] = i
