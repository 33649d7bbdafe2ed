"""DistDGL's partition: METIS's cut, within 1.05 times the mean in nodes and in train nodes."""

from __future__ import annotations

import heapq
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import metis_parts, random_parts, symmetrised
from a3gnn.hitgnn.algorithms import partitioners as distdgl
from a3gnn.hitgnn.algorithms.partitioners import (
    balanced,
    distdgl_partition,
    has_two_constraints,
    part_limit,
    two_constraint_parts,
)
from tests.graphs.metis_memory import said_without_memory
from tests.hitgnn.algorithms.random_graphs import graphs, lopsided


@pytest.fixture(scope="module")
def corner() -> Graph:
    return lopsided()


def assert_balanced(graph: Graph, parts: np.ndarray, num_parts: int) -> None:
    assert (parts.dtype, parts.shape) == (np.int32, (graph.num_nodes,))
    assert parts.min() >= 0
    assert parts.max() < num_parts
    for nodes in (np.arange(graph.num_nodes), graph.train_ids):
        mean = len(nodes) / num_parts
        assert np.bincount(parts[nodes]).max() <= max(1.05 * mean, math.ceil(mean))


def edge_cut(graph: Graph, parts: np.ndarray) -> float:
    """The share of the edges between different parts."""
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return float((parts[targets] != parts[graph.indices]).mean())


def imbalance(parts: np.ndarray, num_parts: int) -> float:
    """The largest part over the mean."""
    return float(np.bincount(parts).max() * num_parts / len(parts))


def is_train(graph: Graph) -> np.ndarray:
    return np.isin(np.arange(graph.num_nodes), graph.train_ids)


@given(graphs(), st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=150)
def test_any_graph_is_balanced_in_nodes_and_in_train_nodes(graph: Graph, num_parts: int, seed: int) -> None:
    num_parts = min(num_parts, graph.num_nodes)
    parts = distdgl_partition(graph, num_parts, seed)
    assert_balanced(graph, parts, num_parts)
    np.testing.assert_array_equal(parts, distdgl_partition(graph, num_parts, seed))


@pytest.mark.parametrize("num_parts", [2, 4, 7])
def test_where_plain_metis_fails_the_train_nodes_both_bounds_hold(corner: Graph, num_parts: int) -> None:
    assert imbalance(metis_parts(corner, num_parts, 0)[corner.train_ids], num_parts) > 1.5
    parts = distdgl_partition(corner, num_parts)
    assert_balanced(corner, parts, num_parts)
    by_chance = edge_cut(corner, random_parts(corner, num_parts, 0))
    assert edge_cut(corner, parts) < 0.3 * by_chance


@pytest.mark.parametrize("num_parts", [2, 4, 7])
def test_without_two_constraints_the_pass_alone_balances(
    corner: Graph, num_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where pymetis hides its library's symbols."""
    monkeypatch.setattr(distdgl, "has_two_constraints", lambda: False)
    parts = distdgl_partition(corner, num_parts)
    assert_balanced(corner, parts, num_parts)
    by_chance = edge_cut(corner, random_parts(corner, num_parts, 0))
    assert edge_cut(corner, parts) < 0.6 * by_chance


@given(graphs(), st.integers(2, 9), st.data())
@settings(max_examples=100)
def test_the_pass_balances_whatever_it_is_given(graph: Graph, num_parts: int, data: st.DataObject) -> None:
    used = data.draw(st.integers(1, num_parts))
    start = np.random.default_rng(graph.num_nodes).integers(used, size=graph.num_nodes).astype(np.int32)
    parts = balanced(symmetrised(graph), start, is_train(graph), num_parts)
    assert_balanced(graph, parts, num_parts)
    np.testing.assert_array_equal(parts, balanced(symmetrised(graph), parts, is_train(graph), num_parts))


@given(graphs(), st.integers(2, 5))
@settings(max_examples=60)
def test_the_cheapest_node_moves_first(graph: Graph, num_parts: int) -> None:
    """The kernel's lower bounds choose what computing every cost anew before each move chooses."""
    start = (np.arange(graph.num_nodes) % num_parts // 2).astype(np.int32)
    both_ways = symmetrised(graph)
    expected = start.copy()
    train = is_train(graph)
    for movable, counted in ((train, train), (~train, np.ones_like(train))):
        held = np.bincount(expected[counted], minlength=num_parts)
        limit = part_limit(int(counted.sum()), num_parts)
        while held.max() > limit:
            moves = []
            for v in np.flatnonzero(movable & (held > limit)[expected]):
                row = both_ways.indices[both_ways.indptr[v] : both_ways.indptr[v + 1]]
                toward = np.bincount(expected[row], minlength=num_parts)
                open_parts = np.flatnonzero(held < limit)
                target = min(open_parts, key=lambda part: (-toward[part], held[part], part))
                heapq.heappush(moves, (toward[expected[v]] - toward[target], v, target))
            _, v, target = moves[0]
            held[[expected[v], target]] += (-1, 1)
            expected[v] = target
    np.testing.assert_array_equal(balanced(both_ways, start, train, num_parts), expected)


@pytest.mark.parametrize(
    ("total", "num_parts", "limit"), [(3, 2, 2), (1, 4, 1), (100, 5, 21), (40, 2, 21), (38, 2, 19), (0, 3, 0)]
)
def test_the_limit_is_what_counts_allow(total: int, num_parts: int, limit: int) -> None:
    assert part_limit(total, num_parts) == limit


@pytest.mark.skipif(not has_two_constraints(), reason="this pymetis hides its library's symbols")
@pytest.mark.parametrize("num_parts", [4, 9])
def test_metis_itself_balances_two_weights_per_node(corner: Graph, num_parts: int) -> None:
    parts = two_constraint_parts(symmetrised(corner), is_train(corner), num_parts, 0)
    assert imbalance(parts[corner.train_ids], num_parts) < 1.1
    assert imbalance(parts, num_parts) < 1.1
    other = two_constraint_parts(symmetrised(corner), is_train(corner), num_parts, 1)
    assert (parts != other).any()


def test_the_cut_with_fewer_edges_is_taken(small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    both = edge_cut(small_graph, distdgl_partition(small_graph, 4))
    monkeypatch.setattr(distdgl, "has_two_constraints", lambda: False)
    alone = edge_cut(small_graph, distdgl_partition(small_graph, 4))
    assert both <= alone


def test_as_many_parts_as_nodes_have_one_each(tiny_graph: Graph) -> None:
    parts = distdgl_partition(tiny_graph, tiny_graph.num_nodes)
    np.testing.assert_array_equal(np.sort(parts), np.arange(tiny_graph.num_nodes))


def test_one_part_has_all(corner: Graph) -> None:
    assert not distdgl_partition(corner, 1).any()


@pytest.mark.parametrize("wrong", [0, -1, 3001, 2.0, True])
def test_impossible_numbers_of_parts_are_refused(corner: Graph, wrong: int) -> None:
    with pytest.raises(UsageError, match="parts must be "):
        distdgl_partition(corner, wrong)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space, which other systems don't")
def test_without_memory_it_says_what_to_do() -> None:
    said = said_without_memory(
        "from a3gnn.hitgnn.algorithms.partitioners import distdgl_partition", "distdgl_partition(graph, 2)"
    )
    assert "MemoryLimitError: METIS needs several copies of the" in said
    assert "algorithm 'pagraph' needs some bytes per node, or partition the graph" in said
