"""What ranks keep, and what an algorithm of one's own takes."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.describe import neighbor_entries
from a3gnn.graphs.partition import random_parts
from a3gnn.hitgnn.algorithms.algorithm import Algorithm
from a3gnn.hitgnn.algorithms.p3 import PartialSums
from a3gnn.hitgnn.algorithms.program import Program
from a3gnn.hitgnn.algorithms.stored import Stored, by_dimension, by_out_degree, by_partition
from a3gnn.task import Task
from a3gnn.training.checkpoint import identity


def test_parts_are_stored_once_each(tiny_graph):
    parts = random_parts(tiny_graph, 3, 0)
    kept = [by_partition(tiny_graph, parts, rank, 3).nodes for rank in range(3)]
    assert np.array_equal(np.sort(np.concatenate(kept)), np.arange(tiny_graph.num_nodes))
    assert all((parts[nodes] == rank).all() for rank, nodes in enumerate(kept))


def test_no_node_that_is_left_out_has_a_higher_out_degree(tiny_graph):
    parts = random_parts(tiny_graph, 3, 0)
    first, *others = (by_out_degree(tiny_graph, parts, rank, 3).nodes for rank in range(3))
    assert all(np.array_equal(first, other) for other in others)
    assert len(first) == tiny_graph.num_nodes // 3
    degrees, left = neighbor_entries(tiny_graph), np.ones(tiny_graph.num_nodes, dtype=bool)
    left[first] = False
    assert degrees[first].min() >= degrees[left].max()


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 16])
def test_dimensions_are_stored_once_each(tiny_graph, ranks):
    parts = random_parts(tiny_graph, ranks, 0)
    kept = [by_dimension(tiny_graph, parts, rank, ranks) for rank in range(ranks)]
    ends = [column for one in kept for column in one.columns]
    assert ends[::2] == [0, *ends[1:-1:2]]
    assert ends[-1] == tiny_graph.num_features == sum(one.width for one in kept)
    assert max(one.width for one in kept) - min(one.width for one in kept) <= 1
    assert all(len(one.nodes) == tiny_graph.num_nodes for one in kept)


def test_more_ranks_than_columns_are_refused(tiny_graph):
    with pytest.raises(UsageError, match="a column for each of 17 ranks, got 16"):
        by_dimension(tiny_graph, random_parts(tiny_graph, 17, 0), 0, 17)


def test_what_is_no_node_or_column_is_refused(tiny_graph):
    for nodes in ([-1], [300], [0.5]):
        with pytest.raises(UsageError, match=r"integers in \[0, 300\)"):
            Stored.rows(tiny_graph, nodes)
    for columns in ((0, 17), (-1, 3), (4, 4)):
        with pytest.raises(UsageError, match=r"must be a non-empty range in \[0, 16\]"):
            Stored.dimensions(tiny_graph, *columns)
    assert Stored.rows(tiny_graph, []).nodes.dtype == np.int32
    assert Stored.rows(tiny_graph, [5, 3, 5]).nodes.tolist() == [3, 5]


def test_an_algorithm_says_what_its_functions_must_return(tiny_graph):
    def made(partition, storing=by_partition):
        return Algorithm("mine", partition, storing)

    for wrong in (np.zeros(3, dtype=int), np.zeros(300), np.full(300, 2), np.full(300, -1)):
        with pytest.raises(UsageError, match=r"partitioner of mine must return an integer in \[0, 2\)"):
            made(lambda graph, ranks, seed, wrong=wrong: wrong).parts(tiny_graph, 2, 0)
    mine = made(random_parts, lambda graph, parts, rank, ranks: [1, 2])
    with pytest.raises(UsageError, match="must return a Stored"):
        mine.stored(tiny_graph, mine.parts(tiny_graph, 2, 0), 0, 2)


def test_a_run_goes_on_with_what_decides_its_bits(tiny_graph):
    def known(algorithm):
        parts = algorithm.parts(tiny_graph, 2, 0)
        own = algorithm.identity(tiny_graph, parts, 2)
        return identity(tiny_graph, TrainConfig(), Task(), 2, None, own)

    def dealt(graph, ranks, seed):
        return np.arange(graph.num_nodes) % ranks

    def narrow_first(graph, parts, rank, ranks):
        return Stored.dimensions(graph, *((0, 5), (5, 16))[rank])

    first = Algorithm("mine", random_parts, by_partition)
    assert known(first) == known(dataclasses.replace(first, storing=by_out_degree, direct=False))
    split = Algorithm("mine", random_parts, by_dimension, PartialSums)
    pairs = {
        "algorithm": (first, dataclasses.replace(first, name="other")),
        "parts": (first, dataclasses.replace(first, partition=dealt)),
        "balanced": (first, dataclasses.replace(first, balanced=False)),
        "columns": (split, dataclasses.replace(split, storing=narrow_first)),
    }
    for name, (before, now) in pairs.items():
        one, other = known(before), known(now)
        assert {key for key in one | other if one.get(key) != other.get(key)} == {name}
    json.dumps(known(split))


def test_a_program_keeps_what_it_was_told(tiny_graph):
    program = Program(tiny_graph, 2)
    for rank in range(2):
        program.graph_partition(np.arange(150) + 150 * rank, rank)
        program.feature_storing(rank, nodes=np.arange(100))
    made = program.algorithm()
    parts = made.parts(tiny_graph, 2, 0)
    assert parts.tolist() == [0] * 150 + [1] * 150
    assert made.stored(tiny_graph, parts, 1, 2).nodes.tolist() == list(range(100))


def test_train_nodes_that_all_ranks_have_are_dealt_out_evenly(tiny_graph):
    program = Program(tiny_graph, 3, exchange=PartialSums)
    for rank in range(3):
        program.graph_partition(range(tiny_graph.num_nodes), rank)
        program.feature_storing(rank, columns=(5 * rank, 5 * rank + 5))
    made = program.algorithm()
    parts = made.parts(tiny_graph, 3, 7)
    counts = np.bincount(parts[tiny_graph.train_ids], minlength=3)
    assert counts.max() - counts.min() <= 1
    assert not np.array_equal(parts, made.parts(tiny_graph, 3, 8))
    assert made.stored(tiny_graph, parts, 2, 3).columns == (10, 15)


def test_nodes_of_some_ranks_are_dealt_out_among_these(tiny_graph):
    program = Program(tiny_graph, 3)
    program.graph_partition(range(300), 1)
    program.graph_partition(range(100), 0)
    for rank in range(3):
        program.feature_storing(rank)
    parts = program.algorithm().parts(tiny_graph, 3, 0)
    assert set(parts[:100].tolist()) == {0, 1}
    assert set(parts[100:].tolist()) == {1}


def test_a_program_that_lacks_something_is_refused(tiny_graph):
    program = Program(tiny_graph, 2)
    with pytest.raises(UsageError, match=r"called for every rank, but ranks \[0, 1\] are missing"):
        program.algorithm()
    for rank in range(2):
        program.feature_storing(rank)
    program.graph_partition(tiny_graph.train_ids[1:], 0)
    with pytest.raises(UsageError, match="every train node to a rank, but 1 have none"):
        program.algorithm()
    with pytest.raises(UsageError, match="got both"):
        program.feature_storing(0, nodes=[1], columns=(0, 1))
    with pytest.raises(UsageError, match=r"rank must be in \[0, 2\), got 2"):
        program.graph_partition([1], 2)
    with pytest.raises(UsageError, match=r"nodes of a rank must be .* \[0, 300\), got values from -1 to -1"):
        program.graph_partition([-1], 0)
    with pytest.raises(
        UsageError, match=r"nodes with stored features must be .* \[0, 300\), got values from 300 to 300"
    ):
        program.feature_storing(0, nodes=[300])
    program.graph_partition(tiny_graph.train_ids, 1)
    with pytest.raises(UsageError, match="by 2 ranks, got 300 nodes, 16 features and 3 ranks; make a Program"):
        program.algorithm().parts(tiny_graph, 3, 0)
