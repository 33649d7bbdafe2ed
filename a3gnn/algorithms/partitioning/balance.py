"""The bound on a part's nodes and train nodes, and the pass that moves nodes until it holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from a3gnn.algorithms.partitioning.balance_kernels import move_excess

#: A part may have this many percent of the mean.
_PERCENT = 105


def part_limit(total: int, num_parts: int) -> int:
    """Returns how many of `total` nodes a part may have: 1.05 times the mean, and the mean rounded up at least.

    Below 20 per part the second is larger: three train nodes over two parts are two and one.
    """
    return max(_PERCENT * total // (100 * num_parts), -(-total // num_parts))


def balanced(
    both_ways: csr_array, parts: NDArray[np.int32], is_train: NDArray[np.bool_], num_parts: int
) -> NDArray[np.int32]:
    """Returns `parts` with nodes moved until no part exceeds `part_limit` in nodes or in train nodes.

    Train nodes first, then others, which leaves train nodes as they are. The node whose move adds fewest cut edges
    goes next, to the part with most of its neighbours that has room. A part within both limits loses no node, so
    that parts which are balanced already are returned as they are. It always succeeds: a part with too many nodes has
    some that are no train nodes, and some part has room. O((nodes + edges of moved nodes) log nodes) time.

    Args:
        both_ways: The symmetrised graph.
        parts: Part of each node, int32, shape (num_nodes,); not changed.
        is_train: Which nodes are train nodes, bool, same shape.
        num_parts: Number of parts.
    """
    moved = parts.copy()
    for movable, counted in ((is_train, is_train), (~is_train, np.ones_like(is_train))):
        held = np.bincount(moved[counted], minlength=num_parts)
        limit = part_limit(int(counted.sum()), num_parts)
        if held.max() > limit:
            move_excess(both_ways.indptr.astype(np.int64), both_ways.indices, movable, limit, moved, held)
    return moved
