"""The names of a user's search: entries, grids, conditions, rows and configurations, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from a3gnn.config import KNOBS, SEARCHED, TrainConfig, numbered
from a3gnn.errors import ConfigError, UsageError
from a3gnn.hardware import Hardware
from a3gnn.search import GRID, Search, Searched, checked_search, enqueued, search_from, search_of, with_arguments
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task, usual_fanouts

SHAPES: dict[str, Any] = {
    "model": ["sage", "gat"],
    "hidden": [64, 128, 256],
    "layers": [2, 3, 4],
    "heads": [2, 4],
    "dropout": (0.0, 0.7),
    "lr": {"low": 1e-3, "high": 1e-1, "log": True},
    "residual": {"values": [False, True], "when": {"layers": ">=3"}},
}


def space_of(search: Search, task: Task, graph: Any, hardware: Hardware) -> SearchSpace:
    names = {one.name: one for one in search}
    space = SearchSpace.of(Setting(task, graph, hardware))
    return space.with_search([one.knob(task, names) for one in search])


@pytest.fixture
def shapes(tiny_graph: Any, hardware: Hardware) -> SearchSpace:
    task = Task(learning_rate=0.01)
    return space_of(checked_search(search_of(SHAPES), task), task, tiny_graph.characteristics(), hardware)


def test_an_entry_is_a_list_a_range_a_mapping_or_a_distribution_of_optuna() -> None:
    assert Searched.of("a", [3, 1, 2, 1]) == Searched("a", (1, 2, 3), "linear")
    assert Searched.of("a", ["b", "a"]) == Searched("a", ("b", "a"))
    assert Searched.of("a", (1, 4)).values == (1, 2, 3, 4)
    assert Searched.of("a", {"low": 0.0, "high": 1.0, "step": 0.25}).values == (0.0, 0.25, 0.5, 0.75, 1.0)
    spaced = Searched.of("a", {"low": 1e-4, "high": 1e-1, "log": True})
    assert (len(spaced.values), spaced.ends) == (GRID, (1e-4, 1e-1))
    np.testing.assert_allclose(np.diff(np.log(spaced.values)), np.log(1e3) / (GRID - 1), rtol=0.02)
    distributions = optuna.distributions
    for given, entry in (
        (distributions.FloatDistribution(1e-4, 1e-1, log=True), {"low": 1e-4, "high": 1e-1, "log": True}),
        (distributions.FloatDistribution(0.0, 0.7), (0.0, 0.7)),
        (distributions.IntDistribution(1, 4), (1, 4)),
        (distributions.IntDistribution(0, 8, step=2), [0, 2, 4, 6, 8]),
        (distributions.CategoricalDistribution(["b", "a"]), ["b", "a"]),
    ):
        assert Searched.of("a", given).values == Searched.of("a", entry).values


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"a": []}, "at least one value"),
        ({"a": 3}, "must be a list of values"),
        ({"a": (2, 1)}, "must have low < high"),
        ({"a": {"low": 0.0, "high": 1.0, "log": True}}, "it is logarithmic"),
        ({"a": {"low": 0.0}}, "either values, or low and high"),
        ({"a": {"values": [1], "hi": 2}}, "a part of a"),
        ({"a b": [1]}, "must be that of an argument"),
        ({"a": [object()]}, "must be numbers, text"),
        ({"a": {"values": [1, 2], "when": {"b": 1}}}, "a's when"),
        ({"a": {"values": [1, 2], "when": {"b": ">=x"}}, "b": [1, 2]}, "a condition must be"),
        ({"a": {"values": 3}}, "a list as values, got 3"),
        ({"a": {"values": "abc"}}, "a list as values, got 'abc'"),
        ({"a": list(range(1001))}, "at most 1,000 values"),
        ({"a": [0.5, float("nan")]}, "must be finite"),
        ({"a": {"low": 0.0, "high": 1.0, "step": 0}}, "a step above 0"),
        ({"a": {"low": 0.0, "high": 1.0, "step": -0.1}}, "a step above 0"),
        ({"a": {"low": 0.0, "high": 1.0, "step": "b"}}, "a step above 0"),
        ({"a": {"low": 0.0, "high": 1e15, "step": 1e-9}}, "at most 1,000 values"),
    ],
)
def test_an_entry_that_is_none_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        search_of(given)


@pytest.mark.parametrize(
    ("given", "task", "error"),
    [
        ({"width": [64]}, Task(), "search"),
        ({"batch_size": [64]}, Task(), "is a knob"),
        ({"model": ["sage", "sega"]}, Task(), "sega"),
        ({"dropout": [0.5, 1.0]}, Task(), "dropout=1.0 is refused"),
        ({"hidden": [64, 100], "heads": [8]}, Task(model="gat"), "multiple of heads"),
        ({"lr_schedule": ["cosine"]}, Task(), "lr_schedule=cosine is refused"),
        ({"layers": [0, 1]}, Task(), "layers=0 is refused"),
        ({"layers": [2, 10**9]}, Task(), "layers must be integers from 1 to 1,000"),
        ({"layers": [2, 10**9]}, Task(model="mine:make"), "layers must be integers from 1 to 1,000"),
        ({"layers": [2.0, 3.0]}, Task(model="mine:make"), "layers must be integers"),
    ],
)
def test_a_name_or_a_value_that_no_task_has_is_refused(given: dict[str, Any], task: Task, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        checked_search(search_of(given), task)


def test_rows_and_configurations_are_each_others_and_idle_names_have_the_tasks_value(shapes: SearchSpace) -> None:
    rows = shapes.sample(500, seed=1)
    for row in rows:
        config = shapes.decode(row)
        np.testing.assert_array_equal(shapes.encode(config), row)
        task = config.task_of(Task(learning_rate=0.01))
        assert task.heads == 4 or task.model == "gat"
        assert not task.residual or task.num_layers >= 3
        assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    numbers = shapes.columns(rows)[SEARCHED]
    assert [numbered(int(one)) for one in numbers] == [shapes.decode(row).searched for row in rows]


def test_the_baseline_is_a_row_and_searches_nothing(shapes: SearchSpace) -> None:
    row = shapes.encode(TrainConfig())
    assert shapes.decode(row) == TrainConfig()
    assert dict(zip(shapes.names, row, strict=True))["hidden_channels"] == 2
    with pytest.raises(ConfigError, match="searches no"):
        shapes.systems.encode(TrainConfig(searched={"hidden_channels": 64}))
    assert shapes.systems.names == tuple(knob.name for knob in KNOBS)


def test_keys_tell_searched_values_apart_and_stay_without_them() -> None:
    one, other = TrainConfig(searched={"layers": 3}), TrainConfig(searched={"layers": 4})
    assert len({TrainConfig().key(), one.key(), other.key()}) == 3
    assert len({TrainConfig().learning_key(), one.learning_key(), other.learning_key()}) == 3
    assert "searched" not in TrainConfig().to_dict()
    assert "arguments" not in Task().to_dict()


def test_a_task_takes_values_with_the_fanouts_of_its_layers() -> None:
    assert Task().with_values({"layers": 3}).fanouts == usual_fanouts(3)
    assert Task().with_values({"layers": 2}) == Task()
    assert Task(fanouts=(7, 5)).with_values({"layers": 4}).fanouts == (7, 5, 5, 5)
    assert Task(fanouts=(7, 5, 3)).with_values({"layers": 1}).fanouts == (7,)
    own = Task(model="mine:make", arguments={"hidden": 8, "layers": 2})
    changed = own.with_values({"hidden": 16, "layers": 3, "learning_rate": 0.1})
    assert (dict(changed.arguments), changed.num_layers, changed.learning_rate) == ({"hidden": 16, "layers": 3}, 3, 0.1)
    assert Task.from_dict(json.loads(json.dumps(changed.to_dict()))) == changed
    with pytest.raises(ConfigError, match="arguments must be left out"):
        Task(arguments={"hidden": 8})


def test_a_factorys_defaults_are_the_baseline_or_else_the_middle() -> None:
    task = Task(model="mine:make")
    search = checked_search(search_of({"hidden": [8, 16, 32], "dropout": (0.0, 0.6)}), task)
    found, task = with_arguments(search, task, {"dropout": 0.1234})
    assert dict(task.arguments) == {"hidden": 16, "dropout": 0.1234}
    assert 0.1234 in found[1].values
    with pytest.raises(UsageError, match="must include 64, which mine:make takes by default"):
        with_arguments(search, Task(model="mine:make"), {"hidden": 64})


def test_enqueued_values_join_a_range_and_must_be_among_choices() -> None:
    search = search_of({"dropout": (0.0, 0.6), "hidden": [8, 16]})
    assert 0.1234 in enqueued(search, [{"dropout": 0.1234, "batch_size": 64}])[0].values
    with pytest.raises(UsageError, match="enqueue: hidden must be one of"):
        enqueued(search, [{"hidden": 12}])


def test_positions_are_places_in_a_range_and_choices_are_one_apart() -> None:
    rate = Searched.of("a", {"low": 1e-4, "high": 1e-2, "log": True})
    assert [rate.position(value) for value in (1e-4, 1e-3, 1e-2)] == [(0.0,), pytest.approx((0.5,)), (1.0,)]
    names = Searched.of("a", ["b", "c", "d"])
    apart = np.linalg.norm(np.subtract(names.position("b"), names.position("d")))
    assert apart == pytest.approx(1.0)


def test_numbers_of_numpy_and_lists_within_lists_survive_json() -> None:
    step = {"low": np.int64(0), "high": np.int64(8), "step": np.int64(4)}
    for one in search_of({"a": step, "b": [[[1, 2], [3]], [[4]]]}):
        kept = Searched.from_dict(json.loads(json.dumps(one.to_dict())))
        assert kept == one
        config = TrainConfig(searched={one.name: one.values[0]})
        assert hash(TrainConfig.from_dict(json.loads(json.dumps(config.to_dict())))) == hash(config)


def test_a_name_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("layers = [2, 3]\n")
    with pytest.raises(UsageError, match="each name once, got layers twice"):
        search_from([str(tmp_path / "space.toml"), "layers=4"])


def test_texts_and_toml_files_give_the_same_search(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("layers = [2, 3]\n[lr]\nlow = 1e-4\nhigh = 0.1\nlog = true\n[residual]\nvalues = [false, true]\n")
    texts = search_from(["layers=2,3", "lr=1e-4:0.1:log", "residual=false,true"])
    assert search_of(texts) == search_of(search_from([str(file)]))
    assert search_of(search_from(["norm=none,batch"]))[0].values == ("none", "batch")
    for text in ("layers", "layers=", "lr=1:2:linear", str(tmp_path / "missing.toml")):
        with pytest.raises(UsageError, match="--search"):
            search_from([text])
