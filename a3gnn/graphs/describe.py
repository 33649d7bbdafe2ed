"""A graph's characteristics, the statistics that the surrogate takes; and its nodes by falling neighbor entries."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.edge_list_kernels import by_falling_count, components, count_entries, equal_label_edges
from a3gnn.graphs.labels import label_spread
from a3gnn.storage.npy import slices

# Numbers below which a tally counts in an array, of 512 KiB: it fits the cache of a core.
_DENSE = 1 << 16

#: Distinct numbers, ascending, and how often each occurs. In-degrees of m edges have at most sqrt(2 m) + 1.
Tally = list[tuple[int, int]]


def describe(graph: GraphArrays) -> GraphCharacteristics:
    """Returns the characteristics, computed in a few passes over the edges; it takes 4 bytes of memory per node."""
    degrees = tally(np.diff(graph.indptr[some.start : some.stop + 1]) for some in slices(graph.num_nodes))
    with_neighbors = sum(nodes for degree, nodes in degrees if degree)
    equal = labeled = 0
    if graph.target == "classes" and graph.links is None:
        equal, labeled = equal_label_edges(graph.indptr, graph.indices, graph.labels)
    feature_bytes = graph.types.nbytes if graph.types else graph.features.nbytes
    num_components, largest = components(graph.indptr, graph.indices)
    # A node has at most an edge to each other one. Only typed edges may repeat.
    is_small = graph.types is None or graph.num_edges < 1 << 32
    entries = neighbor_entries(graph, np.uint32 if is_small else np.int64)
    return GraphCharacteristics(
        name=graph.name,
        fingerprint=graph.fingerprint,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        mean_degree=graph.num_edges / graph.num_nodes,
        p95_degree=percentile(degrees, 95),
        max_degree=degrees[-1][0],
        degree_gini=gini(degrees),
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
        num_components=num_components,
        largest_component=largest / graph.num_nodes,
        cached_edge_mass=cached_edge_mass(tally(entries[some] for some in slices(len(entries)))),
        target=graph.target,
        label_spread=label_spread(graph.labels, graph.train_ids),
        relations=len(graph.types.schema.relations) if graph.types else 0,
        rows_per_node=int(np.count_nonzero(np.diff(graph.types.rows))) / with_neighbors if graph.types else 1.0,
        ends=graph.links.of_types if graph.links else (),
    )


def tally(pieces: Iterable[NDArray[np.integer]]) -> Tally:
    """Returns how often each number occurs in `pieces`, integers >= 0 of one dimension."""
    dense, others = np.zeros(_DENSE, dtype=np.int64), Counter[int]()
    for piece in pieces:
        is_dense = piece < _DENSE
        dense += np.bincount(piece[is_dense], minlength=_DENSE)
        others.update(piece[~is_dense].tolist())  # few, because degrees of m edges have at most m / _DENSE
    found = np.flatnonzero(dense)
    return [*zip(found.tolist(), dense[found].tolist(), strict=True), *sorted(others.items())]


def percentile(numbers: Tally, percent: float) -> float:
    """Returns the same percentile of at least one number as `np.percentile`, to the last bit."""
    reach = list(accumulate(count for _, count in numbers))
    place = (reach[-1] - 1) * (percent / 100)
    low, high = (numbers[bisect_left(reach, min(int(place) + i, reach[-1] - 1) + 1)][0] for i in (0, 1))
    share = place - int(place)
    return float(high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share)


def gini(numbers: Tally) -> float:
    """Returns the Gini coefficient of `numbers`: 0 if all are equal, near 1 if one is the whole sum.

    It is the sum of (2 i - n - 1) times the i-th of n ascending numbers, over n times their sum. Equal numbers are
    consecutive, so integers sum each run exactly.
    """
    n, total = sum(count for _, count in numbers), sum(number * count for number, count in numbers)
    weighted = before = 0
    for number, count in numbers:
        weighted += number * count * (2 * before + count - n)
        before += count
    return weighted / (n * total) if total else 0.0


def cached_edge_mass(entries: Tally) -> tuple[float, ...]:
    """Returns the share of neighbor `entries` that the hottest nodes take, at each of CACHE_FRACTIONS.

    The share is interpolated for a fraction between two node counts.
    """
    hottest = entries[::-1]
    reach, mass = [0], [0]
    for number, nodes in hottest:
        reach.append(reach[-1] + nodes)
        mass.append(mass[-1] + number * nodes)
    total = max(mass[-1], 1)

    def share(nodes: float) -> float:
        low = min(int(nodes), reach[-1] - 1)
        ends = []
        for most in (low, low + 1):
            run = max(bisect_left(reach, most), 1)
            ends.append((mass[run] - (reach[run] - most) * hottest[run - 1][0]) / total)
        return float(np.interp(nodes, [low, low + 1], ends))

    return tuple(share(fraction * reach[-1]) for fraction in CACHE_FRACTIONS)


def neighbor_entries(graph: GraphArrays, dtype: type[np.integer] = np.int64) -> NDArray[Any]:
    """Returns the neighbor entries that each node takes (its out-degree), shape (num_nodes,)."""
    entries = np.zeros(graph.num_nodes, dtype=dtype)
    count_entries(graph.indices, entries)
    return entries


def hottest_first(graph: GraphArrays) -> NDArray[np.int32]:
    """Returns all nodes by falling neighbor entries, ties by rising id, int32, shape (num_nodes,)."""
    order: NDArray[np.int32] = by_falling_count(neighbor_entries(graph))
    return order
