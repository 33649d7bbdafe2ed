"""What shares of a mini-batch hold: from the sampler, expected, and between what was counted."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.counts import CountCurve
from a3gnn.sampling.sampler import Sampler


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.load("synthetic:nodes=2000,degree=8,features=4")


@pytest.fixture(scope="module")
def sampler(graph: Graph) -> Sampler:
    return Sampler(graph.edges, (5, 3), seed=0)


@pytest.fixture(scope="module")
def sampled(graph: Graph, sampler: Sampler) -> CountCurve:
    return CountCurve.sampled(sampler, graph.train_ids, (16, 64, 256))


def test_more_seeds_than_there_are_to_train_on_are_refused(graph, sampler):
    """Else the row for 512 would hold what 100 seeds reach."""
    train = graph.train_ids[:100]
    with pytest.raises(UsageError, match=r"at most 100, the train nodes, got \(64, 512\); count smaller shares"):
        CountCurve.sampled(sampler, train, (64, 512))
    assert CountCurve.sampled(sampler, train, (64, 100), repeats=1).at(100).nodes[0] == 100


def test_the_sampler_is_counted_hop_by_hop(sampled):
    for seeds in (16, 64, 256):
        counts = sampled.at(seeds)
        assert counts.nodes[0] == seeds
        assert counts.edges[0] <= 5 * seeds
        assert counts.edges[1] <= 3 * (counts.nodes[1] - seeds) + 1e-9
        assert seeds < counts.nodes[1] < counts.nodes[2] <= 2000


def test_cutting_a_mini_batch_repeats_work(sampled):
    whole, quarter = sampled.at(256), sampled.at(64)
    assert 4 * quarter.input_nodes > whole.input_nodes


def test_layers_have_the_sources_destinations_and_edges_of_the_hops_they_compute(sampled):
    counts = sampled.at(64)
    (first, second), nodes, edges = counts.layers, counts.nodes, counts.edges
    assert first == (nodes[2], nodes[1], edges[0] + edges[1])
    assert second == (nodes[1], nodes[0], edges[0])
    assert counts.traversed_edges == first[2] + second[2]


def test_between_counted_sizes_counts_are_linear_and_nothing_holds_nothing(sampled):
    middle, low, high = (np.array(sampled.at(seeds).nodes) for seeds in (40, 16, 64))
    assert middle == pytest.approx((low + high) / 2)
    assert sampled.at(0).traversed_edges == 0.0
    assert sampled.at(8).nodes == pytest.approx(low / 2)


def test_expected_counts_fill_the_graph_at_most():
    curve = CountCurve.expected(1000, 8.0, (5, 20), (1, 100, 1000))
    assert curve.at(1).edges[0] == 5.0
    assert curve.at(1).edges[1] == pytest.approx(8 * (curve.at(1).nodes[1] - 1))
    assert curve.at(1000).nodes[2] <= 1000


def test_more_seeds_than_were_counted_are_refused(sampled):
    with pytest.raises(UsageError, match="up to 256 seeds, got 257"):
        sampled.at(257)
    with pytest.raises(UsageError, match="ascend"):
        CountCurve((4, 2), np.ones((2, 3)), np.ones((2, 2)))
