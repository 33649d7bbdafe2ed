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
    sources: NDArray[Any],
    targets: NDArray[Any],
    table: NDArray[np.int64],
    limits: tuple[int, int],
    csr: tuple[Ints, Ints],
    ends: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> int:
    """Writes the non-empty rows of relations into one type as one CSR, relation after relation.

    Args:
        sources: Sources of the edges, relation after relation.
        targets: Targets of the edges.
        table: For each relation its number of edges, the first of its sources in the joint matrix, the number of its
            sources and how many of them that matrix has, shape (num_relations, 4).
        limits: Number of targets, and of those whose rows are written; these come first.
        csr: Written: starts of the rows, shape (num_edges + 1,), and sources in the joint matrix, (num_edges,).
        ends: Written: the target of each row, shape (num_edges,), and the rows of each relation, (num_relations,).

    Returns:
        The number of rows; -1 if an end is out of range, or a source is not in the joint matrix.
    """
    (indptr, indices), (nodes, counts), (num_dst, limit) = csr, ends, limits
    row, at, begin = 0, 0, 0
    for r in range(len(table)):
        edges, base, num_src, present = table[r]
        heads, tails, first = sources[begin : begin + edges], targets[begin : begin + edges], row
        lowest, _, top_target, ascending = extent(heads, tails)
        if lowest < 0 or top_target >= num_dst:
            return -1
        if not ascending:
            order = order_of(tails, num_dst)[1]
            heads, tails = heads[order], tails[order]
        last = np.int64(-1)
        for e in range(edges):
            source, target = np.int64(heads[e]), np.int64(tails[e])
            if source >= (present if target < limit else num_src):
                return -1
            if target >= limit:
                continue
            if target != last:
                indptr[row], nodes[row], last = at, target, target
                row += 1
            indices[at] = base + source
            at += 1
        counts[r] = row - first
        begin += edges
    indptr[row] = at
    return row


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
