"""Nodes in chunks that keep a memory budget, and the in-edges of a chunk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.graph import Graph
from a3gnn.graphs.rows import row_slots, row_spans
from a3gnn.parts.graph import PartedGraph

#: Bytes per edge that `in_edges` takes at its peak.
EDGE_BYTES = 32
# Nodes whose sizes are summed at once. Guess.
_SLAB = 1 << 17


def chunks(
    ids: NDArray[np.int32], indptr: NDArray[np.int64], row_bytes: int, edge_bytes: int, budget: int
) -> Iterator[NDArray[np.int32]]:
    """Yields `ids` in order, in pieces that take at most `budget` bytes, or that hold a single node.

    Args:
        ids: Nodes.
        indptr: The graph's, int64, shape (num_nodes + 1,).
        row_bytes: Bytes per node.
        edge_bytes: Bytes per in-edge of a node.
        budget: Bytes per piece.
    """
    for start in range(0, len(ids), _SLAB):
        slab = ids[start : start + _SLAB]
        taken = np.cumsum(row_bytes + edge_bytes * (indptr[slab + 1] - indptr[slab]))
        for first, end in row_spans(np.concatenate(([0], taken)), budget):
            yield slab[first:end]


def in_edges(graph: Graph, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the CSR of the in-edges of `ids`, which ascend: indptr int32 (n + 1,), indices int32 (global ids).

    A run of consecutive nodes is a view of the graph's own indices. Of a graph by parts they are asked for.
    """
    if isinstance(graph, PartedGraph):
        return graph.in_edges(ids)
    first, last = int(ids[0]), int(ids[-1])
    if last - first + 1 == len(ids):
        ends = graph.indptr[first : last + 2]
        return (ends - ends[0]).astype(np.int32), graph.indices[ends[0] : ends[-1]]
    indptr, slots = row_slots(graph.indptr, ids)
    return indptr.astype(np.int32), graph.indices[slots]
