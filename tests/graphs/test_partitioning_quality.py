from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition
from a3gnn.graphs.partitioning.quality import partition_quality


def test_one_part_is_perfect(small_graph: Graph) -> None:
    quality = partition_quality(small_graph, np.zeros(small_graph.num_nodes, dtype=np.int32))
    assert dataclasses.astuple(quality) == (0.0, 1.0, 1.0, 1.0)


def test_shares_are_those_of_a_count(small_graph: Graph) -> None:
    parts = np.random.default_rng(0).choice(3, size=small_graph.num_nodes, p=[0.5, 0.3, 0.2]).astype(np.int32)
    quality = partition_quality(small_graph, parts)
    targets = np.repeat(np.arange(small_graph.num_nodes), np.diff(small_graph.indptr))
    assert quality.edge_cut == (parts[targets] != parts[small_graph.indices]).mean()
    sizes, trains = np.bincount(parts), np.bincount(parts[small_graph.train_ids])
    assert quality.node_imbalance == pytest.approx(sizes.max() / sizes.mean())
    assert quality.train_imbalance == pytest.approx(trains.max() / trains.mean())


def test_locality_is_near_its_expectation(small_graph: Graph) -> None:
    parts = partition(small_graph, 4)
    indptr, indices = small_graph.indptr, small_graph.indices
    row = np.repeat(1 / np.maximum(np.diff(indptr), 1), np.diff(indptr))
    shares = []
    for seed in small_graph.train_ids:
        # Where a walk of one step, and of two, ends: a drawn neighbour, and a neighbour's neighbour.
        one = np.zeros(small_graph.num_nodes)
        one[indices[indptr[seed] : indptr[seed + 1]]] = row[indptr[seed] : indptr[seed + 1]]
        flow = row * np.repeat(one, np.diff(indptr))
        two = np.bincount(indices, flow, minlength=small_graph.num_nodes)
        home = parts == parts[seed]
        if one.any():
            shares.append((one[home].sum() + 10 * two[home].sum()) / 11)
    assert partition_quality(small_graph, parts).locality == pytest.approx(np.mean(shares), abs=0.03)


def test_the_seed_decides(small_graph: Graph) -> None:
    parts = partition(small_graph, 4)
    zero, one = (partition_quality(small_graph, parts, seed) for seed in (0, 1))
    assert zero == partition_quality(small_graph, parts, 0)
    assert zero.locality != one.locality


def test_nodes_without_in_neighbours_have_nothing_to_lose(small_graph: Graph) -> None:
    empty = dataclasses.replace(
        small_graph, indptr=np.zeros_like(small_graph.indptr), indices=small_graph.indices[:0], known=None
    )
    quality = partition_quality(empty, np.arange(small_graph.num_nodes, dtype=np.int32) % 2)
    assert (quality.edge_cut, quality.locality) == (0.0, 1.0)
