"""Compiled loops of the partitioners: grow and merge blocks, count edges between them, assign blocks to parts."""

from __future__ import annotations

from typing import NamedTuple

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
    neighbors, weights = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.int64)
    for b in range(len(sizes)):
        length = _count_by_target(indptr, indices, nodes[starts[b] : starts[b + 1]], block, itself, counts, touched)
        end = ends[b]
        if end + length > len(neighbors):
            neighbors = _longer(neighbors, end, 2 * (end + length))
            weights = _longer(weights, end, 2 * (end + length))
        for i in range(length):
            if touched[i] != b:
                neighbors[end] = touched[i]
                weights[end] = counts[touched[i]]
                end += 1
            counts[touched[i]] = 0
        ends[b + 1] = end
    return ends, neighbors[: ends[-1]].copy(), weights[: ends[-1]].copy()


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


@njit(nogil=True, cache=True)
def reach_of(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    start: int,
    hops: int,
    seen: NDArray[np.int32],
    reach: NDArray[np.int32],
) -> int:
    """Writes `start` and all nodes within `hops` hops of it to `reach`, `start` first; returns their number.

    Args:
        indptr: CSR.
        indices: CSR.
        start: A node that no earlier call with the same `seen` started from.
        hops: At least 0.
        seen: Shape (num_nodes,), -1 before the first call; changed in place.
        reach: Shape (num_nodes,), changed in place.
    """
    seen[start] = start
    reach[0] = start
    begin, count = 0, 1
    for _ in range(hops):
        end = count
        for i in range(begin, end):
            if count == len(seen):  # every node is reached: in a dense graph this avoids quadratic time
                break
            between = reach[i]
            for e in range(indptr[between], indptr[between + 1]):
                other = indices[e]
                if seen[other] != start:
                    seen[other] = start
                    reach[count] = other
                    count += 1
        begin = end
    return count


class PartCapacity(NamedTuple):
    """Target of nodes and train nodes per part: their means over the parts."""

    nodes: float
    train_nodes: float


@njit(nogil=True, cache=True)
def assign(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.int64],
    sizes: NDArray[np.int32],
    train_sizes: NDArray[np.int64],
    order: NDArray[np.int64],
    capacity: PartCapacity,
    num_parts: int,
    by_edges: bool,
) -> NDArray[np.int32]:
    """Returns the part of each block, int32, shape (num_blocks,), assigned one by one in `order`.

    Args:
        indptr: The block graph's CSR.
        indices: The block graph's CSR.
        weights: Edges behind each entry of `indices`.
        sizes: Nodes of each block.
        train_sizes: Train nodes of each block.
        order: All blocks.
        capacity: Target of nodes and train nodes per part.
        num_parts: Number of parts.
        by_edges: Count the edges to neighbor blocks, not the blocks within two hops.
    """
    parts = np.full(len(sizes), -1, dtype=np.int32)
    seen, reach = np.full(len(sizes), -1, dtype=np.int32), np.empty(len(sizes), dtype=np.int32)
    overlap = np.empty(num_parts, dtype=np.int64)
    held = np.zeros((num_parts, 2), dtype=np.int64)
    for block in order:
        overlap[:] = 0
        if by_edges:
            _count_edges(indptr, indices, weights, block, parts, overlap)
        else:
            _count_blocks(indptr, indices, block, parts, seen, reach, overlap)
        part = _best_part(overlap, held, sizes[block], train_sizes[block], capacity)
        parts[block] = part
        held[part, 0] += sizes[block]
        held[part, 1] += train_sizes[block]
    return parts


@njit(nogil=True, cache=True)
def _count_edges(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.int64],
    block: int,
    parts: NDArray[np.int32],
    overlap: NDArray[np.int64],
) -> None:
    for e in range(indptr[block], indptr[block + 1]):
        if parts[indices[e]] >= 0:
            overlap[parts[indices[e]]] += weights[e]


@njit(nogil=True, cache=True)
def _count_blocks(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    block: int,
    parts: NDArray[np.int32],
    seen: NDArray[np.int32],
    reach: NDArray[np.int32],
    overlap: NDArray[np.int64],
) -> None:
    """Adds each block one or two hops away to its part's `overlap`, once."""
    count = reach_of(indptr, indices, block, 2, seen, reach)
    for i in range(1, count):
        if parts[reach[i]] >= 0:
            overlap[parts[reach[i]]] += 1


@njit(nogil=True, cache=True)
def _best_part(
    overlap: NDArray[np.int64], held: NDArray[np.int64], size: int, train_size: int, capacity: PartCapacity
) -> int:
    """Returns the part with the highest score among parts with enough room; without one, the part with most room.

    Args:
        overlap: Blocks or edges in each part.
        held: Nodes and train nodes of each part, shape (num_parts, 2).
        size: Nodes of the block.
        train_size: Train nodes of the block; with none, any part has enough room for them.
        capacity: Target of nodes and train nodes per part.
    """
    best, best_key = 0, (-1, -np.inf, -np.inf)
    for part in range(len(overlap)):
        room, train_room = 1 - held[part, 0] / capacity.nodes, 1 - held[part, 1] / capacity.train_nodes
        after = 1 - (held[part, 0] + size) / capacity.nodes
        if train_size > 0:
            after = min(after, 1 - (held[part, 1] + train_size) / capacity.train_nodes)
        score = (1 + overlap[part]) * room * train_room
        key = (1, score, 0.0) if after >= 0 and score > 0 else (0, after, room + train_room)
        if key > best_key:
            best, best_key = part, key
    return best
