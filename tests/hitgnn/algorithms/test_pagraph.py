"""PaGraph's partition, and a plain one beside it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.partitioners import pagraph_partition, pagraph_parts
from a3gnn.seeding import generator
from tests.hitgnn.algorithms.random_graphs import graphs


def neighborhood(graph: Graph, node: int, hops: int) -> set[int]:
    """IN(v), `node` itself excepted."""
    found = {node}
    for _ in range(hops):
        found |= {int(u) for v in found for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
    return found - {node}


def plainly(graph: Graph, num_parts: int, seed: int, hops: int) -> tuple[list[set[int]], list[set[int]]]:
    """TV_i and PV_i, as section 3.4 has them."""
    train: list[set[int]] = [set() for _ in range(num_parts)]
    nodes: list[set[int]] = [set() for _ in range(num_parts)]
    mean = len(graph.train_ids) / num_parts
    for v in map(int, generator(seed, "pagraph").permutation(graph.train_ids)):
        near = neighborhood(graph, v, hops)

        def rank(i: int, near: set[int] = near) -> tuple[float, int, int, int]:
            score = len(train[i] & near) * (mean - len(train[i])) / max(len(nodes[i]), 1)
            return score, -len(train[i]), -len(nodes[i]), -i

        best = max(range(num_parts), key=rank)
        train[best].add(v)
        nodes[best] |= near | {v}
    return train, nodes


@given(graphs(), st.integers(1, 9), st.integers(0, 3), st.integers(1, 3))
@settings(max_examples=100)
def test_any_graph_is_dealt_out_as_the_paper_has_it(graph: Graph, num_parts: int, seed: int, hops: int) -> None:
    num_parts = min(num_parts, graph.num_nodes)
    found = pagraph_parts(graph, num_parts, seed, hops)
    train, nodes = plainly(graph, num_parts, seed, hops)
    assert (found.home.dtype, found.home.shape) == (np.int32, (graph.num_nodes,))
    for i in range(num_parts):
        assert set(graph.train_ids[found.home[graph.train_ids] == i].tolist()) == train[i]
        assert found.sizes[i] == len(nodes[i])
    for v, home in enumerate(found.home):
        reached = [i for i in range(num_parts) if v in nodes[i]]
        assert home in (reached or range(num_parts))


@given(graphs(), st.integers(1, 9), st.integers(0, 3))
def test_train_nodes_are_as_even_as_they_can_be(graph: Graph, num_parts: int, seed: int) -> None:
    num_parts = min(num_parts, graph.num_nodes)
    parts = pagraph_partition(graph, num_parts, seed)
    assert np.bincount(parts[graph.train_ids]).max() <= math.ceil(len(graph.train_ids) / num_parts)


def test_nodes_that_no_train_node_reaches_fill_up_the_smallest_parts(small_graph: Graph) -> None:
    alone = dataclasses.replace(
        small_graph,
        indptr=np.zeros_like(small_graph.indptr),
        indices=small_graph.indices[:0],
        train_ids=small_graph.train_ids[:7],
        known=None,
    )
    parts = pagraph_partition(alone, 4)
    assert np.bincount(parts).tolist() == [500] * 4
    assert sorted(np.bincount(parts[alone.train_ids], minlength=4).tolist()) == [1, 2, 2, 2]


def test_train_nodes_near_each_other_stay_together() -> None:
    """On two separate communities, fewer nodes are in both parts than where train nodes are dealt out in turn."""
    graph = Graph.load("synthetic:nodes=3000,degree=6,classes=2,features=1,homophily=0.99,mixing=0.0,seed=2")
    found = pagraph_parts(graph, 2, hops=1)
    in_turn = 0
    for i in range(2):
        own = graph.train_ids[i::2]
        in_turn += len(set().union(*(neighborhood(graph, int(v), 1) for v in own)) | set(own.tolist()))
    assert found.sizes.sum() < 0.95 * in_turn


def test_the_seed_decides(small_graph: Graph) -> None:
    zero, one = (pagraph_partition(small_graph, 4, seed) for seed in (0, 1))
    np.testing.assert_array_equal(zero, pagraph_partition(small_graph, 4))
    assert (zero != one).any()


def test_a_graph_on_disk_is_dealt_out_like_the_one_in_ram(small_graph: Graph, small_folder_graph: Graph) -> None:
    np.testing.assert_array_equal(pagraph_partition(small_graph, 3), pagraph_partition(small_folder_graph, 3))


@pytest.mark.parametrize(("parts", "hops", "name"), [(0, 2, "parts"), (2001, 2, "parts"), (2, 0, "hops")])
def test_what_cannot_be_is_refused(small_graph: Graph, parts: int, hops: int, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be "):
        pagraph_partition(small_graph, parts, hops=hops)
