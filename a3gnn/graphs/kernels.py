"""Compiled loops over a graph's edges that need memory by the node, not by the edge."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(nogil=True, cache=True)
def equal_label_edges(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], labels: NDArray[np.int64]
) -> tuple[int, int]:
    """Returns how many edges join equal labels, and how many join two labelled nodes."""
    equal = 0
    labelled = 0
    for v in range(len(indptr) - 1):
        if labels[v] < 0:
            continue
        for e in range(indptr[v], indptr[v + 1]):
            other = labels[indices[e]]
            if other >= 0:
                labelled += 1
                equal += other == labels[v]
    return equal, labelled


@numba.njit(nogil=True, cache=True)
def component_roots(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns one node for each node's weakly connected component, int32, shape (num_nodes,).

    Union by smaller id with path halving.
    """
    parent = np.arange(len(indptr) - 1).astype(np.int32)
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            a = np.int32(v)
            b = indices[e]
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b
    for v in range(len(parent)):
        parent[v] = parent[parent[v]]  # parents have smaller ids, so theirs is already the root
    return parent
