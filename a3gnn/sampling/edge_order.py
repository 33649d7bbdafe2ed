"""Compiled kernels that convert edge lists to CSR by target and back, and find the edges between given nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.relabelling import forget, know
from a3gnn.storage.compiled import njit


@njit(cache=True, nogil=True)
def is_by_target(sources: NDArray[Any], targets: NDArray[Any]) -> bool:
    """Returns whether targets ascend, and sources ascend among equal targets."""
    for e in range(1, len(targets)):
        if targets[e] < targets[e - 1] or (targets[e] == targets[e - 1] and sources[e] < sources[e - 1]):
            return False
    return True


@njit(cache=True, nogil=True)
def places_by_target(sources: NDArray[Any], targets: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    """Returns the places of edges, int64, by target, then source, then original order: a radix sort of two passes."""
    by_source = _ordered_by(sources, np.arange(len(sources)), num_nodes)
    order: NDArray[np.int64] = _ordered_by(targets, by_source, num_nodes)
    return order


@njit(nogil=True)
def _ordered_by(nodes: NDArray[Any], places: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Returns the `places` of edges sorted by their `nodes`; the sort is stable."""
    order, ends = np.empty(len(places), dtype=np.int64), np.zeros(num_nodes + 1, dtype=np.int64)
    for e in range(len(nodes)):
        ends[nodes[e] + 1] += 1
    for v in range(num_nodes):
        ends[v + 1] += ends[v]
    for e in places:
        order[ends[nodes[e]]] = e
        ends[nodes[e]] += 1
    return order


@njit(cache=True, nogil=True)
def write_edge_index(indptr: NDArray[np.int32], indices: NDArray[np.int32], edge_index: NDArray[Any]) -> None:
    """Writes a CSR's sources and targets to `edge_index`, integers of shape (2, num_edges)."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            edge_index[0, e] = indices[e]
            edge_index[1, e] = i


@njit(cache=True, nogil=True)
def take_ids(ids: NDArray[Any], places: NDArray[np.int64]) -> None:
    """Replaces `places` by the `ids` at these places."""
    for e in range(len(places)):
        places[e] = ids[places[e]]


@njit(cache=True, nogil=True)
def induced_edges(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], n_id: NDArray[np.int32], position: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Returns all edges between the nodes `n_id`.

    Args:
        indptr: CSR of all edges, by target.
        indices: CSR of all edges, by target.
        n_id: Global ids; edges from a repeated node come from its first position.
        position: Zeros, int32, shape (num_nodes,); zeros again on return.

    Returns:
        indptr and sources as positions in `n_id`, int32, shapes (len(n_id) + 1,) and (num_edges,), and each edge's
        place in `indices`, int64.
    """
    know(n_id, 0, position)
    ends = np.zeros(len(n_id) + 1, dtype=np.int32)
    for i in range(len(n_id)):
        ends[i + 1] = ends[i]
        for e in range(indptr[n_id[i]], indptr[n_id[i] + 1]):
            ends[i + 1] += position[indices[e]] > 0
    sources, places = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1], dtype=np.int64)
    count = 0
    for i in range(len(n_id)):
        for e in range(indptr[n_id[i]], indptr[n_id[i] + 1]):
            if position[indices[e]] > 0:
                sources[count] = position[indices[e]] - 1
                places[count] = e
                count += 1
    forget(n_id, position)
    return ends, sources, places
