"""Compiled loops of BGL's partitioner: grow blocks by breadth-first search, merge them, count edges between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


@njit(nogil=True, cache=True)
def grow_blocks(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], order: NDArray[np.int32], sources: int, max_nodes: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the block of each node, int32, shape (num_nodes,), and the nodes of each block, int32.

    A block claims unvisited in-neighbors, breadth first, until it has `max_nodes` nodes or no such neighbor is left.

    Args:
        indptr: The graph's.
        indices: The graph's.
        order: All nodes. The first `sources` grow a block each; later unvisited ones follow one after another.
        sources: Number of blocks that grow in lockstep.
        max_nodes: Nodes per block at most.
    """
    block = np.full(len(order), -1, dtype=np.int32)
    sizes = np.empty(len(order), dtype=np.int32)  # pages beyond the number of blocks are never touched
    queue = np.empty(len(order), dtype=np.int32)
    head, tail, count = 0, 0, 0
    for source in order:
        if block[source] >= 0:
            continue
        block[source] = count
        sizes[count] = 1
        queue[tail] = source
        tail += 1
        count += 1
        while count >= sources and head < tail:
            v = queue[head]
            head += 1
            mine = block[v]
            for e in range(indptr[v], indptr[v + 1]):
                if sizes[mine] >= max_nodes:
                    break
                u = indices[e]
                if block[u] < 0:
                    block[u] = mine
                    sizes[mine] += 1
                    queue[tail] = u
                    tail += 1
    return block, sizes[:count].copy()


@njit(nogil=True, cache=True)
def by_block(block: NDArray[np.int32], sizes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns the nodes grouped by block, ascending within each, int32, and the start of each block, int64."""
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    for b in range(len(sizes)):
        starts[b + 1] = starts[b] + sizes[b]
    nodes = np.empty(len(block), dtype=np.int32)
    cursors = starts[:-1].copy()
    for v in range(len(block)):
        nodes[cursors[block[v]]] = v
        cursors[block[v]] += 1
    return nodes, starts


@njit(nogil=True, cache=True)
def _count_by_target(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    block: NDArray[np.int32],
    into: NDArray[np.int32],
    counts: NDArray[np.int64],
    touched: NDArray[np.int32],
) -> int:
    """Counts the edges into `nodes` by the source's `into[block]`, -1 excepted; returns the number of distinct values.

    These values are the first entries of `touched`; `counts` must be zero before.
    """
    length = 0
    for v in nodes:
        for e in range(indptr[v], indptr[v + 1]):
            home = into[block[indices[e]]]
            if home >= 0:
                if counts[home] == 0:
                    touched[length] = home
                    length += 1
                counts[home] += 1
    return length


@njit(nogil=True, cache=True)
def merge_into_large(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    block: NDArray[np.int32],
    sizes: NDArray[np.int32],
    order: NDArray[np.int32],
    max_nodes: int,
    into: NDArray[np.int32],
) -> None:
    """Sets `into` of each block of `order` to the large block with most edges into it, ties to the lower id.

    A block that has merged already counts as part of its large block. A large block is skipped if it would have more
    than `max_nodes` nodes. A small block keeps -1 if no neighbor has room.

    Args:
        indptr: The graph's.
        indices: The graph's.
        block: Block of each node.
        sizes: Nodes of each block.
        order: The small blocks.
        max_nodes: Nodes per merged block at most.
        into: A large block's own id, -1 for small blocks; changed in place.
    """
    nodes, starts = by_block(block, sizes)
    merged = sizes.copy()
    counts = np.zeros(len(sizes), dtype=np.int64)
    touched = np.empty(len(sizes), dtype=np.int32)
    for small in order:
        length = _count_by_target(
            indptr, indices, nodes[starts[small] : starts[small + 1]], block, into, counts, touched
        )
        best = -1
        for i in range(length):
            large = touched[i]
            fits = merged[large] + sizes[small] <= max_nodes
            if fits and (best < 0 or (counts[large], -large) > (counts[best], -best)):
                best = large
        for i in range(length):
            counts[touched[i]] = 0
        if best >= 0:
            into[small] = best
            merged[best] += sizes[small]


@njit(nogil=True, cache=True)
def merge_consecutive(
    sizes: NDArray[np.int32], order: NDArray[np.int32], max_nodes: int, into: NDArray[np.int32]
) -> None:
    """Sets `into` of the blocks of `order`, merging consecutive ones while they have at most `max_nodes` nodes."""
    first, filled = np.int32(-1), 0
    for b in order:
        if first < 0 or filled + sizes[b] > max_nodes:
            first, filled = b, 0
        into[b] = first
        filled += sizes[b]


@njit(nogil=True, cache=True)
def block_edges(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], block: NDArray[np.int32], sizes: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Returns the CSR adjacency of blocks without self loops: indptr, indices, and the number of edges per entry."""
    nodes, starts = by_block(block, sizes)
    itself = np.arange(len(sizes)).astype(np.int32)
    counts = np.zeros(len(sizes), dtype=np.int64)
    touched = np.empty(len(sizes), dtype=np.int32)
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    neighbours, weights = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.int64)
    for b in range(len(sizes)):
        length = _count_by_target(indptr, indices, nodes[starts[b] : starts[b + 1]], block, itself, counts, touched)
        end = ends[b]
        if end + length > len(neighbours):
            neighbours = _longer(neighbours, end, 2 * (end + length))
            weights = _longer(weights, end, 2 * (end + length))
        for i in range(length):
            if touched[i] != b:
                neighbours[end] = touched[i]
                weights[end] = counts[touched[i]]
                end += 1
            counts[touched[i]] = 0
        ends[b + 1] = end
    return ends, neighbours[: ends[-1]].copy(), weights[: ends[-1]].copy()


@njit(nogil=True, cache=True)
def _longer(array: NDArray[np.int64], used: int, length: int) -> NDArray[np.int64]:
    longer = np.empty(length, dtype=array.dtype)
    longer[:used] = array[:used]
    return longer


@njit(nogil=True, cache=True)
def cut_edges(indptr: NDArray[np.int64], indices: NDArray[np.int32], parts: NDArray[np.int32]) -> int:
    """Returns the number of edges between nodes of different parts."""
    cut = 0
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            cut += parts[indices[e]] != parts[v]
    return cut
