"""What a search tries in a setting."""

from __future__ import annotations

import dataclasses

import pytest

from a3gnn.config import Task, TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace


@pytest.fixture
def setting(tiny_graph: Graph, hardware: Hardware) -> Setting:
    return Setting(Task(), tiny_graph.characteristics(), hardware)


def values(setting: Setting, name: str) -> tuple[object, ...]:
    space = SearchSpace.of(setting)
    assert space.decode(space.encode(TrainConfig())) == TrainConfig()
    return space.knob(name).values


@pytest.mark.parametrize(
    ("train", "sizes"),
    [
        (40, (1024,)),
        (300, (64, 128, 256, 1024)),
        (1024, (64, 128, 256, 512, 1024)),
        (1025, (64, 128, 256, 512, 1024, 2048)),
        (5000, (64, 128, 256, 512, 1024, 2048, 4096, 8192)),
        (20_000, (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)),
    ],
)
def test_batch_sizes_end_with_one_that_holds_every_train_seed(
    setting: Setting, train: int, sizes: tuple[int, ...]
) -> None:
    graph = dataclasses.replace(setting.graph, num_train=train)
    assert values(dataclasses.replace(setting, graph=graph), "batch_size") == sizes


@pytest.mark.parametrize(
    ("fanouts", "of_seeds", "deep"),
    [
        ((25, 10), (None, 15, 10, 5, 3), (None, 5, 2)),
        ((-1, 5, 10), (None, 25, 15, 10, 5, 3), (None, 5, 2)),
        ((3, -1), (None,), (None, 15, 10, 5, 2)),
        ((10,), (None, 5, 3), (None,)),
    ],
)
def test_fanouts_are_the_tasks_and_those_below(
    setting: Setting, fanouts: tuple[int, ...], of_seeds: tuple[int | None, ...], deep: tuple[int | None, ...]
) -> None:
    setting = dataclasses.replace(setting, task=Task(fanouts=fanouts))
    assert values(setting, "seed_fanout") == of_seeds
    assert values(setting, "deep_fanout") == deep


def test_any_fanout_can_be_fixed(setting: Setting) -> None:
    space = SearchSpace.of(setting)
    assert space.fix("seed_fanout", "40").knob("seed_fanout").values == (40,)
    assert space.fix("seed_fanout", "task").knob("seed_fanout").values == (None,)
    assert space.fix("deep_fanout", None).knob("deep_fanout").values == (None,)
    assert space.restrict("deep_fanout", "2", "8").knob("deep_fanout").values == (2, 4, 8)
    with pytest.raises(ConfigError, match="fix it to task"):
        space.restrict("seed_fanout", 3, "task")
    with pytest.raises(ConfigError, match="seed_fanout must be an integer >= 1, got 0"):
        space.restrict("seed_fanout", 0, 8)
