"""The compiled loop that moves nodes out of parts that are too large."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

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
