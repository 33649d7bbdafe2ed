"""Compiled loops of the partitioners: move nodes out of parts that are too large, and PaGraph's assignment."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.partition_kernels import reach_of
from a3gnn.storage.compiled import njit

# An entry of the heap packs a cost and a node: cost * 2^32 + node.
_BITS, _NODE = 32, (1 << 32) - 1


@njit(nogil=True, cache=True)
def move_excess(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    movable: NDArray[np.bool_],
    limit: int,
    parts: NDArray[np.int32],
    held: NDArray[np.int64],
) -> None:
    """Moves nodes out of parts that hold more than `limit`; the node whose move adds the fewest cut edges goes first.

    A move lowers its neighbors' costs by at most two, and raises costs of other nodes if a part has filled up. So
    neighbors are entered with a cost that is two lower. When an entry comes up, its cost is computed; if that is
    higher, the node is entered again. The node that moves is thus always the cheapest.

    Args:
        indptr: The symmetrized graph's row starts.
        indices: The symmetrized graph's neighbors.
        movable: Whether each node may move, shape (num_nodes,); parts over the limit have enough of them.
        limit: Most nodes that a part may hold; num_parts * limit is at least the number that all parts hold.
        parts: Part of each node, changed in place.
        held: Number of counted nodes in each part, movable ones included, changed in place.
    """
    toward = np.zeros(len(held), dtype=np.int64)
    bound = np.zeros(len(parts), dtype=np.int64)
    heap = [np.int64(0) for _ in range(0)]
    for node in range(len(parts)):
        if movable[node] and held[parts[node]] > limit:
            bound[node] = _cheapest(indptr, indices, node, parts, held, limit, toward)[0]
            heap.append((bound[node] << _BITS) + node)
    heapify(heap)
    while len(heap) > 0:
        entry = heappop(heap)
        v, cost = entry & _NODE, entry >> _BITS
        home = parts[v]
        if held[home] <= limit or cost != bound[v]:  # its part is within the limit, or it was entered again
            continue
        now, target = _cheapest(indptr, indices, v, parts, held, limit, toward)
        if now > cost:
            bound[v] = now
            heappush(heap, (now << _BITS) + v)
            continue
        parts[v] = target
        held[home] -= 1
        held[target] += 1
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if movable[u] and held[parts[u]] > limit:
                bound[u] -= 2
                heappush(heap, (bound[u] << _BITS) + u)


@njit(nogil=True, cache=True)
def _cheapest(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    v: int,
    parts: NDArray[np.int32],
    held: NDArray[np.int64],
    limit: int,
    toward: NDArray[np.int64],
) -> tuple[int, int]:
    """Returns the cut edges added by moving `v`, and the target: the part that has room and most of its neighbors.

    Ties go to the part that holds least, then to the lower one. `toward` must be zero before, and is zero after.
    """
    for e in range(indptr[v], indptr[v + 1]):
        toward[parts[indices[e]]] += 1
    best = -1
    for part in range(len(held)):
        if held[part] < limit and (best < 0 or (toward[part], -held[part]) > (toward[best], -held[best])):
            best = part
    added = toward[parts[v]] - toward[best]
    for e in range(indptr[v], indptr[v + 1]):
        toward[parts[indices[e]]] = 0
    return added, best


@njit(nogil=True, cache=True)
def deal_out(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], order: NDArray[np.int32], num_parts: int, hops: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns the part of each node, int32, -1 if no train node reaches it, and the size of each part, int64.

    Args:
        indptr: The graph's row starts.
        indices: The graph's in-neighbors.
        order: The train nodes, in the order of their assignment.
        num_parts: Number of parts.
        hops: Hops of the in-neighborhoods.
    """
    num_nodes = len(indptr) - 1
    home = np.full(num_nodes, -1, dtype=np.int32)
    owner = np.full(num_nodes, -1, dtype=np.int32)  # only of train nodes: the members of TV_i
    member = np.zeros((num_nodes, (num_parts + 7) // 8), dtype=np.uint8)  # a bit per part: the members of PV_i
    seen, reach = np.full(num_nodes, -1, dtype=np.int32), np.empty(num_nodes, dtype=np.int32)
    train, sizes = np.zeros(num_parts, dtype=np.int64), np.zeros(num_parts, dtype=np.int64)
    common = np.zeros(num_parts, dtype=np.int64)
    mean = len(order) / num_parts
    for v in order:
        count = reach_of(indptr, indices, v, hops, seen, reach)
        common[:] = 0
        for i in range(1, count):
            if owner[reach[i]] >= 0:
                common[owner[reach[i]]] += 1
        part = _highest(common, train, sizes, mean)
        owner[v] = part
        train[part] += 1
        byte, bit = part // 8, np.uint8(1 << (part % 8))
        for i in range(count):
            u = reach[i]
            if home[u] < 0:
                home[u] = part
            if not member[u, byte] & bit:
                member[u, byte] |= bit
                sizes[part] += 1
    for v in order:
        home[v] = owner[v]
    return home, sizes


@njit(nogil=True, cache=True)
def _highest(common: NDArray[np.int64], train: NDArray[np.int64], sizes: NDArray[np.int64], mean: float) -> int:
    """Returns the part with the highest score; ties go to the fewest train nodes, the fewest nodes, the lower number.

    Args:
        common: |TV_i ∩ IN(v)| of each part.
        train: |TV_i|.
        sizes: |PV_i|.
        mean: TV_avg.
    """
    best, best_key = 0, (-np.inf, np.int64(0), np.int64(0))
    for part in range(len(common)):
        score = common[part] * (mean - train[part]) / max(sizes[part], 1)
        key = (score, -train[part], -sizes[part])
        if key > best_key:
            best, best_key = part, key
    return best
