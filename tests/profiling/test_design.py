"""Which configurations are measured first."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.profiling.design import space_filling
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task


@pytest.fixture
def space(small_graph: Graph, this_machine: Hardware) -> SearchSpace:
    return SearchSpace.of(Setting(Task(), small_graph.characteristics(), this_machine))


def test_configurations_differ_and_leave_out_the_default(space: SearchSpace) -> None:
    found = space_filling(space, 200, seed=3)
    assert len(found) == len(set(found)) == 200
    assert all(config == config.canonical() for config in found)
    assert TrainConfig().canonical() not in found


def test_more_of_them_begin_with_the_same_ones(space: SearchSpace) -> None:
    assert space_filling(space, 50, seed=3)[:20] == space_filling(space, 20, seed=3)
    assert space_filling(space, 20, seed=3) != space_filling(space, 20, seed=4)


def test_every_value_of_every_knob_is_covered(space: SearchSpace) -> None:
    rows = np.array([space.encode(config) for config in space_filling(space, 60, seed=0)])
    assert [len(np.unique(column)) for column in rows.T] == space.nvec.tolist()


def test_a_small_space_gives_all_it_has(space: SearchSpace) -> None:
    for name in (
        *("num_partitions", "cache_bytes", "bias_rate", "feature_tier", "batch_size"),
        *("seed_fanout", "deep_fanout", "learning_rate_scale"),
    ):
        space = space.fix(name, getattr(TrainConfig(), name))
    found = space_filling(space, 1000, seed=0)
    assert len(found) == len(space.enumerate()) - 1
