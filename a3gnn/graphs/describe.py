"""A graph's characteristics, the statistics that the surrogate takes; and its nodes by falling neighbor entries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.edge_list_kernels import by_falling_count, component_roots, count_entries, equal_label_edges
from a3gnn.graphs.labels import label_spread


def describe(graph: GraphArrays) -> GraphCharacteristics:
    """Returns the characteristics, computed in a few passes over the edges, in memory linear in the nodes."""
    degrees = np.diff(graph.indptr)
    with_neighbors = int(np.count_nonzero(degrees))
    p95, most, unevenness = float(np.percentile(degrees, 95)), int(degrees.max()), gini(degrees)
    del degrees
    equal = labeled = 0
    if graph.target == "classes" and graph.links is None:
        equal, labeled = equal_label_edges(graph.indptr, graph.indices, graph.labels)
    feature_bytes = graph.types.nbytes if graph.types else graph.features.nbytes
    component_sizes = np.bincount(component_roots(graph.indptr, graph.indices))
    return GraphCharacteristics(
        name=graph.name,
        fingerprint=graph.fingerprint,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        mean_degree=graph.num_edges / graph.num_nodes,
        p95_degree=p95,
        max_degree=most,
        degree_gini=unevenness,
        num_features=graph.num_features,
        feature_density=graph.features.density,
        feature_bytes=feature_bytes,
        row_bytes=feature_bytes / graph.num_nodes if graph.types else graph.features.row_bytes,
        sparse_features=graph.features.is_sparse,
        num_classes=graph.num_classes,
        num_train=len(graph.train_ids),
        num_val=len(graph.val_ids),
        num_test=len(graph.test_ids),
        label_rate=len(graph.train_ids) / graph.num_nodes,
        homophily=equal / labeled if labeled else 0.0,
        num_components=int(np.count_nonzero(component_sizes)),
        largest_component=float(component_sizes.max() / graph.num_nodes),
        cached_edge_mass=cached_edge_mass(neighbor_entries(graph)),
        target=graph.target,
        label_spread=label_spread(graph.labels, graph.train_ids),
        relations=len(graph.types.schema.relations) if graph.types else 0,
        rows_per_node=int(np.count_nonzero(np.diff(graph.types.rows))) / with_neighbors if graph.types else 1.0,
        ends=graph.links.of_types if graph.links else (),
    )


def gini(values: NDArray[np.int64]) -> float:
    """Returns the Gini coefficient of non-negative `values`: 0 if all are equal, near 1 if one is the whole sum."""
    ordered = np.sort(values).astype(np.float64)
    total = ordered.sum()
    if total == 0:
        return 0.0
    ranks = np.arange(1 - len(ordered), len(ordered), 2, dtype=np.float64)  # 2 i - n - 1 for i from 1 to n
    return float(ranks @ ordered / (len(ordered) * total))


def cached_edge_mass(entries: NDArray[np.int64]) -> tuple[float, ...]:
    """Returns the share of neighbor `entries` that the hottest nodes take, at each of CACHE_FRACTIONS.

    The share is interpolated for a fraction between two node counts.
    """
    reach = -np.sort(-entries)
    np.cumsum(reach, out=reach)
    total = max(int(reach[-1]), 1)

    def share(nodes: float) -> float:
        low = min(int(nodes), len(reach) - 1)
        ends = [int(reach[low - 1]) / total if low else 0.0, int(reach[low]) / total]
        return float(np.interp(nodes, [low, low + 1], ends))

    return tuple(share(fraction * len(entries)) for fraction in CACHE_FRACTIONS)


def neighbor_entries(graph: GraphArrays) -> NDArray[np.int64]:
    """Returns the neighbor entries that each node takes (its out-degree), int64, shape (num_nodes,)."""
    entries = np.zeros(graph.num_nodes, dtype=np.int64)
    count_entries(graph.indices, entries)
    return entries


def hottest_first(graph: GraphArrays) -> NDArray[np.int32]:
    """Returns all nodes by falling neighbor entries, ties by rising id, int32, shape (num_nodes,)."""
    order: NDArray[np.int32] = by_falling_count(neighbor_entries(graph))
    return order
