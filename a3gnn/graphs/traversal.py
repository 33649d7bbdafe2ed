"""Nodes in the order in which a breadth-first traversal reaches them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.graphs.traversal_kernels import visit_breadth_first


def breadth_first_order(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    nodes: NDArray[np.int32],
    draw: np.random.Generator,
) -> NDArray[np.int32]:
    """Returns the positions in `nodes`, each once, in the order in which a traversal from random roots reaches them.

    O(nodes + edges) time, 9 bytes per node of the graph while it runs; stops reading edges once all `nodes` are found.

    Edges are followed from a node to its in-neighbours. In an undirected graph a root reaches its whole component; in a
    directed one only its ancestors. The next random root among `nodes` then continues, so that in a directed graph
    nodes that only share an ancestor may end up far apart.

    Args:
        indptr: In-neighbours as CSR, int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,).
        nodes: Distinct nodes, int32; roots are drawn from them, and other nodes are traversed but not returned.
        draw: Draws the roots.
    """
    order: NDArray[np.int32] = visit_breadth_first(indptr, indices, nodes, draw.permutation(len(nodes)))
    return order
