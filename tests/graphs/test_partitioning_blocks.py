"""BGL's blocks: grown, merged, joined to a graph, and what becomes of graphs that fall apart."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import BlockGraph, block_parts, coarsen
from a3gnn.graphs.partition_kernels import grow_blocks, merge_consecutive, merge_into_large


def _graph(edges: list[tuple[int, int]], num_nodes: int, *, both_ways: bool = True) -> GraphArrays:
    """A graph of (source, target) `edges`; every other node is a train node."""
    pairs = np.array(edges + [(b, a) for a, b in edges if both_ways], dtype=np.int64).reshape(-1, 2)
    rows = csr_array((np.ones(len(pairs)), (pairs[:, 1], pairs[:, 0])), shape=(num_nodes, num_nodes))
    rows.sort_indices()
    ids = np.arange(num_nodes, dtype=np.int32)
    return GraphArrays(
        name="by hand",
        indptr=rows.indptr.astype(np.int64),
        indices=rows.indices.astype(np.int32),
        features=DenseFeatures(np.zeros((num_nodes, 1), dtype=np.float32)),
        labels=np.zeros(num_nodes, dtype=np.int64),
        train_ids=ids[::2],
        val_ids=ids[1::2],
        test_ids=ids[:0],
        num_classes=1,
    )


def _int32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def test_blocks_grow_together_round_by_round() -> None:
    path = _graph([(v, v + 1) for v in range(7)], 8)
    order = _int32(1, 5, 0, 2, 3, 4, 6, 7)
    block, sizes = grow_blocks(path.indptr, path.indices, order, 2, 8)
    # From 1: 0, 2, then 3 (before the other block, which is a step away from it as well); from 5: 4, 6, then 7.
    np.testing.assert_array_equal(block, [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(sizes, [4, 4])


def test_a_full_block_leaves_its_neighbors_to_new_ones() -> None:
    path = _graph([(v, v + 1) for v in range(7)], 8)
    block, sizes = grow_blocks(path.indptr, path.indices, _int32(3, 0, 1, 2, 4, 5, 6, 7), 1, 3)
    np.testing.assert_array_equal(block, [1, 1, 0, 0, 0, 2, 2, 2])
    np.testing.assert_array_equal(sizes, [3, 2, 3])


def test_blocks_grow_to_in_neighbors() -> None:
    path = _graph([(0, 1), (1, 2)], 3, both_ways=False)
    block, _ = grow_blocks(path.indptr, path.indices, _int32(1, 0, 2), 1, 3)
    np.testing.assert_array_equal(block, [0, 0, 1])


@pytest.mark.parametrize("most", [1, 7, 60])
def test_a_block_is_connected_and_no_larger_than_allowed(small_graph: Graph, most: int) -> None:
    order = np.random.default_rng(most).permutation(small_graph.num_nodes).astype(np.int32)
    sources = small_graph.num_nodes // most
    block, sizes = grow_blocks(small_graph.indptr, small_graph.indices, order, sources, most)
    np.testing.assert_array_equal(np.bincount(block), sizes)
    assert sizes.max() <= most
    targets = np.repeat(np.arange(small_graph.num_nodes), np.diff(small_graph.indptr))
    within = block[targets] == block[small_graph.indices]
    pairs = (np.ones(np.count_nonzero(within)), (targets[within], small_graph.indices[within]))
    inner = csr_array(pairs, shape=(small_graph.num_nodes,) * 2)
    assert connected_components(inner, directed=False)[0] == len(sizes)


def test_a_small_block_merges_into_the_large_one_with_most_edges_that_has_room() -> None:
    # Blocks 0 and 1 are large (nodes 0-2 and 3-5). Block 2 (node 6) has one edge to 0 and two to 1; block 3 (node 7)
    # has two to 1 and none to 0; block 4 (node 8) touches block 2 alone, so it follows it.
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 6), (3, 6), (4, 6), (4, 7), (5, 7), (6, 8)]
    graph = _graph(edges, 9)
    block, sizes = _int32(0, 0, 0, 1, 1, 1, 2, 3, 4), _int32(3, 3, 1, 1, 1)
    for most, expected in (
        (4, [0, 1, 1, -1, -1]),
        (5, [0, 1, 1, 1, -1]),
        (6, [0, 1, 1, 1, 1]),
        (3, [0, 1, -1, -1, -1]),
    ):
        into = _int32(0, 1, -1, -1, -1)
        merge_into_large(graph.indptr, graph.indices, block, sizes, _int32(2, 3, 4), most, into)
        np.testing.assert_array_equal(into, expected)


def test_equal_ties_go_to_the_lower_block() -> None:
    graph = _graph([(0, 2), (1, 2)], 3)
    into = _int32(0, 1, -1)
    merge_into_large(graph.indptr, graph.indices, _int32(0, 1, 2), _int32(1, 1, 1), _int32(2), 2, into)
    np.testing.assert_array_equal(into, [0, 1, 0])


def test_the_rest_merges_in_turn_up_to_the_limit() -> None:
    into = _int32(0, -1, -1, -1, -1)
    merge_consecutive(_int32(9, 2, 2, 3, 1), _int32(4, 2, 3, 1), 4, into)
    np.testing.assert_array_equal(into, [0, 1, 4, 3, 4])


def test_block_graph_counts_the_edges_both_ways() -> None:
    graph = _graph([(0, 1), (2, 0), (3, 1), (3, 4)], 5, both_ways=False)
    blocks = BlockGraph.of(graph, _int32(0, 0, 1, 1, 2), 3)
    dense = csr_array((blocks.weights, blocks.indices, blocks.indptr), shape=(3, 3)).toarray()
    np.testing.assert_array_equal(dense, [[0, 2, 0], [2, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(blocks.sizes, [2, 2, 1])
    np.testing.assert_array_equal(blocks.train_sizes, [1, 1, 1])


def test_block_graph_of_a_drawn_graph_equals_a_count(small_graph: Graph) -> None:
    block = np.random.default_rng(2).integers(40, size=small_graph.num_nodes).astype(np.int32)
    blocks = BlockGraph.of(small_graph, block, 40)
    expected = np.zeros((40, 40), dtype=np.int64)
    targets = np.repeat(block, np.diff(small_graph.indptr))
    np.add.at(expected, (targets, block[small_graph.indices]), 1)
    expected += expected.T
    np.fill_diagonal(expected, 0)
    found = csr_array((blocks.weights, blocks.indices, blocks.indptr), shape=(40, 40)).toarray()
    np.testing.assert_array_equal(found, expected)
    assert blocks.train_sizes.sum() == len(small_graph.train_ids)


@pytest.mark.parametrize("num_parts", [2, 30])
def test_coarsening_keeps_every_node_in_blocks_that_fit_a_part(num_parts: int) -> None:
    graph = Graph.load("synthetic:nodes=30000,degree=6,classes=20,homophily=0.9")
    block, num_blocks = coarsen(graph, num_parts, seed=1)
    sizes = np.bincount(block, minlength=num_blocks)
    assert (len(sizes), sizes.sum()) == (num_blocks, graph.num_nodes)
    assert sizes.min() > 0
    assert sizes.max() <= max(graph.num_nodes / num_parts / 8, graph.num_nodes / 1024)
    assert num_blocks < graph.num_nodes / 4


@pytest.mark.parametrize("num_parts", [2, 9])
def test_a_graph_without_edges_is_dealt_out_evenly(num_parts: int) -> None:
    parts = block_parts(_graph([], 90), num_parts, seed=0)
    assert np.bincount(parts, minlength=num_parts).max() <= 1.1 * 90 / num_parts
    assert np.bincount(parts[::2], minlength=num_parts).max() <= 45 / num_parts + 1


def test_components_stay_whole_where_they_can() -> None:
    rings = [(8 * ring + v, 8 * ring + (v + 1) % 8) for ring in range(600) for v in range(8)]
    graph = _graph(rings, 4800 + 5)  # and five isolated nodes
    parts = block_parts(graph, 3, seed=2)
    assert np.bincount(parts).max() <= 1.05 * graph.num_nodes / 3
    ring_parts = parts[:4800].reshape(600, 8)
    assert (ring_parts == ring_parts[:, :1]).all(axis=1).mean() > 0.9


def test_a_graph_without_train_nodes_is_balanced_by_nodes() -> None:
    graph = _graph([(v, v + 1) for v in range(99)], 100)
    parts = block_parts(dataclasses.replace(graph, train_ids=_int32()), 4, seed=0)
    assert np.bincount(parts, minlength=4).max() <= 29
