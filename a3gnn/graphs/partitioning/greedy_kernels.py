"""Compiled loops of the partitioners: search around a node, and greedy assignment of blocks to parts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit


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
