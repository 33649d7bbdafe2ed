"""A graph's characteristics: what the surrogate knows of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.hotness import neighbour_entries
from a3gnn.graphs.kernels import component_roots, equal_label_edges


def describe(graph: GraphArrays) -> GraphCharacteristics:
    """Returns the characteristics, computed in a few passes over the edges."""
    degrees = np.diff(graph.indptr)
    equal, labelled = equal_label_edges(graph.indptr, graph.indices, graph.labels)
    component_sizes = np.bincount(component_roots(graph.indptr, graph.indices))
    return GraphCharacteristics(
        name=graph.name,
        fingerprint=graph.fingerprint,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        mean_degree=graph.num_edges / graph.num_nodes,
        p95_degree=float(np.percentile(degrees, 95)),
        max_degree=int(degrees.max()),
        degree_gini=gini(degrees),
        num_features=graph.num_features,
        feature_density=graph.features.density,
        feature_bytes=graph.features.nbytes,
        row_bytes=graph.features.row_bytes,
        sparse_features=graph.features.is_sparse,
        num_classes=graph.num_classes,
        num_train=len(graph.train_ids),
        num_val=len(graph.val_ids),
        num_test=len(graph.test_ids),
        label_rate=len(graph.train_ids) / graph.num_nodes,
        homophily=equal / labelled if labelled else 0.0,
        num_components=int(np.count_nonzero(component_sizes)),
        largest_component=float(component_sizes.max() / graph.num_nodes),
        cached_edge_mass=cached_edge_mass(neighbour_entries(graph)),
    )


def gini(values: NDArray[np.int64]) -> float:
    """Returns the Gini coefficient of non-negative `values`: 0 where all are equal, near 1 where one has all."""
    ordered = np.sort(values).astype(np.float64)
    total = ordered.sum()
    if total == 0:
        return 0.0
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1) @ ordered / (len(ordered) * total))


def cached_edge_mass(entries: NDArray[np.int64]) -> tuple[float, ...]:
    """Returns the share of neighbour `entries` that the hottest nodes take, at each of CACHE_FRACTIONS.

    A fraction that falls between two node counts is interpolated.
    """
    mass = np.concatenate([[0], np.cumsum(np.sort(entries)[::-1])]) / max(int(entries.sum()), 1)
    at = np.interp(np.array(CACHE_FRACTIONS) * len(entries), np.arange(len(mass)), mass)
    return tuple(float(share) for share in at)
