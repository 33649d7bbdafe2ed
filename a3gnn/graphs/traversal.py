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

    O(nodes + edges) time, 9 bytes a node of the graph for the time being; reads no edge after all `nodes` are found.

    Edges are followed from a node to its in-neighbours. Where they run both ways, a root reaches all that is connected
    with it; where they don't, only its ancestors. What is left then follows from the next random root among `nodes`, so
    that on a directed graph nodes that merely share an ancestor may come far apart.

    Args:
        indptr: In-neighbours as CSR, int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,).
        nodes: Distinct nodes, int32: the roots are drawn from them, and nodes beside them are passed through.
        draw: Draws the roots.
    """
    order: NDArray[np.int32] = visit_breadth_first(indptr, indices, nodes, draw.permutation(len(nodes)))
    return order
