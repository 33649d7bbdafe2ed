"""What a search tries in a setting."""

from __future__ import annotations

import dataclasses

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.models.model import build_model
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import MODELS, Task


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


@pytest.mark.parametrize(("devices", "trainers", "depths"), [(0, (1,), (0,)), (1, (1, 2), (0, 1)), (4, (1, 5), (0, 1))])
def test_several_trainers_are_tried_beside_devices_alone(
    setting: Setting, devices: int, trainers: tuple[int, ...], depths: tuple[int, ...]
) -> None:
    setting = dataclasses.replace(setting, hardware=dataclasses.replace(setting.hardware, num_devices=devices))
    assert (values(setting, "trainers"), values(setting, "prefetch_depth")) == (trainers, depths)
    assert values(setting, "adapt") == ("off",)
    space = SearchSpace.of(setting)
    assert space.restrict("trainers", 1, 4).knob("trainers").values == (1, 2, 4)
    assert space.restrict("prefetch_depth", "0", "2").knob("prefetch_depth").values[-1] == 2
    assert space.fix("trainers", "2").fix("adapt", "on").knob("adapt").values == ("on",)


@pytest.mark.parametrize("model", MODELS)
def test_full_aggregation_is_offered_where_the_model_and_the_tables_size_allow_it(model, setting: Setting) -> None:
    task, graph = Task(model=model), dataclasses.replace(setting.graph, sparse_features=True, mean_degree=3.0)
    net = build_model(task, 4, 2)
    dense = values(dataclasses.replace(setting, task=task), "input_aggregation")
    assert dense == (("sampled", "full") if net.aggregator else ("sampled",))
    for density, feature_bytes, least in ((0.003, 1.0, 4.0), (0.003, 1.05, 3.8)):
        entries = graph.num_nodes * graph.num_features * density
        thin = dataclasses.replace(graph, feature_density=density, feature_bytes=int(8 * entries * feature_bytes))
        offered = values(Setting(task, thin, setting.hardware), "input_aggregation")
        small = thin.table_bytes(model) <= 4 * thin.feature_bytes
        assert thin.table_bytes(model) > least * 7 * entries
        assert offered == (("sampled", "full") if net.aggregator and small else ("sampled",))


@pytest.mark.parametrize(
    ("fanouts", "idle"), [((10,), {"seed_fanout"}), ((10, 5), {"deep_fanout"}), ((10, 5, 5), set())]
)
def test_the_last_hops_fanout_is_idle_where_the_input_layer_aggregates_in_full(
    setting: Setting, fanouts: tuple[int, ...], idle: set[str]
) -> None:
    space = SearchSpace.of(dataclasses.replace(setting, task=Task(fanouts=fanouts)))
    for full in (True, False):
        config = TrainConfig(input_aggregation="full" if full else "sampled")
        for name in ("seed_fanout", "deep_fanout"):
            for value in space.knob(name).values:
                row = space.encode(TrainConfig(input_aggregation=config.input_aggregation)).copy()
                row[space.names.index(name)] = space.knob(name).index(value)
                changed = space.decode(space.canonical(row[None])[0])
                assert changed == (config if full and name in idle else config.replace(**{name: value}))
                assert space.encode(changed).tolist() == space.canonical(row[None])[0].tolist()
