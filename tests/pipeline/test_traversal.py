"""Breadth-first orders: scipy's on what a root reaches, and each node once on any graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order as scipy_order
from scipy.sparse.csgraph import connected_components

from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.proximity import breadth_first_order


def random_csr(seed: int, nodes: int, edges: int) -> csr_array:
    """In-neighbors of a directed graph, ascending in each row."""
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, nodes, size=(2, edges))
    made = coo_array((np.ones(edges), (ends[0], ends[1])), shape=(nodes, nodes)).tocsr()
    made.sum_duplicates()
    return made


def order_of(matrix: csr_array, nodes: np.ndarray, seed: int = 0) -> np.ndarray:
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return breadth_first_order(indptr, indices, nodes.astype(np.int32), np.random.default_rng(seed))


@settings(deadline=None)
@given(seed=st.integers(0, 1000), nodes=st.integers(1, 40), edges=st.integers(0, 120), data=st.data())
def test_every_node_is_reached_once(seed: int, nodes: int, edges: int, data: st.DataObject) -> None:
    chosen = np.array(data.draw(st.lists(st.integers(0, nodes - 1), unique=True)), dtype=np.int32)
    order = order_of(random_csr(seed, nodes, edges), chosen)
    assert order.dtype == np.int32
    assert sorted(order) == list(range(len(chosen)))


@pytest.mark.parametrize("seed", range(4))
def test_a_root_reaches_its_ancestors_in_scipy_order(seed: int) -> None:
    directed = random_csr(seed, nodes=60, edges=150)
    order = order_of(directed, np.arange(60), seed)
    reached = scipy_order(directed, order[0], return_predecessors=False)
    assert order[: len(reached)].tolist() == reached.tolist()
    if len(reached) < 60:
        assert order[len(reached)] not in reached


def test_nodes_beside_the_wanted_are_passed_through() -> None:
    graph = Graph.load("synthetic:nodes=400,degree=6")
    matrix = csr_array((np.ones(graph.num_edges), graph.indices, graph.indptr), shape=(400, 400))
    wanted = np.random.default_rng(0).choice(400, size=50, replace=False)
    order = wanted[order_of(matrix, wanted)]
    reached = scipy_order(matrix, order[0], return_predecessors=False)
    assert [node for node in reached if node in wanted] == [node for node in order if node in reached]


def test_components_follow_each_other() -> None:
    one_way = random_csr(3, nodes=50, edges=40)
    both_ways = (one_way + one_way.T).tocsr()
    _, component = connected_components(both_ways)
    visited = component[order_of(both_ways, np.arange(50))]
    assert np.count_nonzero(np.diff(visited)) == len(np.unique(component)) - 1


def test_roots_depend_on_the_draw_alone() -> None:
    ring = coo_array((np.ones(30), (np.arange(30), (np.arange(30) + 1) % 30))).tocsr()
    orders = {tuple(order_of(ring, np.arange(30), seed)) for seed in range(5)}
    assert len(orders) > 1
    assert tuple(order_of(ring, np.arange(30), 2)) in orders
    for order in orders:  # each node's only in-neighbor is the next one
        assert set(np.diff(order) % 30) == {1}
