"""Random parts: the baseline of partitioners."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.seeding import generator


def random_parts(graph: GraphArrays, num_parts: int, seed: int) -> NDArray[np.int32]:
    """Returns the part of each node, int32, shape (num_nodes,), drawn at random.

    Parts differ by at most one in their nodes and by at most one in their train nodes.
    """
    rng = generator(seed, "random parts")
    is_train = np.zeros(graph.num_nodes, dtype=np.bool_)
    is_train[graph.train_ids] = True
    parts = np.empty(graph.num_nodes, dtype=np.int32)
    dealt = 0
    for mask in (is_train, ~is_train):
        nodes = np.flatnonzero(mask).astype(np.int32)
        rng.shuffle(nodes)
        # The other nodes continue round-robin after the last train node's part.
        parts[nodes] = np.arange(dealt, dealt + len(nodes), dtype=np.int32) % num_parts
        dealt += len(nodes)
    return parts
