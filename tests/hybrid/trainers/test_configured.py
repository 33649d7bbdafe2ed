"""Trainers that a configuration asks for: in `train`, by a tuned.json, and from the command line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.cli.main import main
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.devices.opening import device_names
from a3gnn.hybrid.trainers.opening import open_request, with_one_trainer
from a3gnn.hybrid.trainers.request import Trainers
from a3gnn.loader.loader import Loader
from a3gnn.task import Task
from a3gnn.threads import pool
from a3gnn.training.rank_processes import Alone
from a3gnn.training.request import TrainRequest

TASK = Task(model="gin", hidden_channels=8, fanouts=(4, 3))
TWO = TrainConfig(batch_size=32, trainers=2)


def run(graph: Graph, out: Path, config: TrainConfig, **others: Any) -> Any:
    given: dict[str, Any] = {"task": TASK, "epochs": 2, "out": out, "notify": lambda line: None}
    return train(config, graph, **given | others)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)
    return state


def equal(one: Path, other: Path) -> bool:
    expected = weights(other)
    return all(torch.equal(value, expected[name]) for name, value in weights(one).items())


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU would be one of them")
@pytest.mark.parametrize(("cores", "names"), [(1, "cpu:1,cpu:1"), (2, "cpu:1,cpu:1"), (7, "cpu:3,cpu:3")])
def test_trainers_divide_the_processors(cores, names, monkeypatch):
    monkeypatch.setattr(pool, "usable_cores", lambda: cores)
    assert device_names(2) == names


@pytest.mark.parametrize(("cores", "trainers", "names"), [
    (8, 2, "cuda:0,cuda:1"),
    (8, 3, "cpu:6,cuda:0,cuda:1"),
    (8, 4, "cpu:3,cpu:3,cuda:0,cuda:1"),
    (2, 3, "cpu:1,cuda:0,cuda:1"),
])  # fmt: skip
def test_gpus_come_first(cores, trainers, names, monkeypatch):
    monkeypatch.setattr(pool, "usable_cores", lambda: cores)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_names(trainers) == names


def test_knobs_are_what_can_be_said_of_trainers():
    asked = Trainers().of(TWO.replace(prefetch_depth=2, adapt="on"))
    assert asked is not None
    assert (asked.names, asked.prefetch, asked.adapt) == (device_names(2), (2, 2, 2), True)
    said = Trainers(shares=(20, 12), stall_s=9.0, prefetch=(1, 0, 1)).of(TWO.replace(prefetch_depth=2))
    assert said is not None
    assert (said.shares, said.stall_s, said.prefetch, said.adapt) == ((20, 12), 9.0, (1, 0, 1), False)
    one = TrainConfig(prefetch_depth=2, adapt="on")
    assert Trainers().of(one) is None
    with pytest.raises(UsageError, match="prefetch must be left out without trainers"):
        Trainers(prefetch=(1, 1, 1)).of(one)
    assert with_one_trainer(TWO.replace(prefetch_depth=2, adapt="on")) == TWO.replace(trainers=1)


def test_a_configuration_trains_as_its_trainers_by_name_do(tiny_folder_graph, tmp_path):
    config = TWO.replace(prefetch_depth=1, resources="auto", parallel_mode="mode1")
    found = run(tiny_folder_graph, tmp_path / "knobs", config)
    assert found.config == config
    assert (found.trainers["shares"], found.trainers["prefetch"]) == ([16, 16], [1, 1, 1])
    named = run(tiny_folder_graph, tmp_path / "named", TWO.replace(trainers=1), trainers=device_names(2))
    assert named.trainers["prefetch"] is None
    assert equal(tmp_path / "knobs", tmp_path / "named")


def test_trainers_by_name_take_the_place_of_the_configurations(tiny_folder_graph, tmp_path):
    found = run(tiny_folder_graph, tmp_path / "run", TWO.replace(prefetch_depth=1), trainers="cpu:1,cpu:1,cpu:1")
    assert found.config == TWO.replace(trainers=1)
    assert found.trainers["shares"] == [11, 11, 10]
    assert found.trainers["prefetch"] is None


def test_a_run_goes_on_by_its_trainers_alone(tiny_folder_graph, tmp_path):
    run(tiny_folder_graph, tmp_path / "run", TWO, epochs=1)
    with pytest.raises(ConfigError, match="trainers was 2 and is 1"):
        run(tiny_folder_graph, tmp_path / "run", TWO.replace(trainers=1), resume=True)
    run(tiny_folder_graph, tmp_path / "run", TWO.replace(prefetch_depth=1), resume=True)
    run(tiny_folder_graph, tmp_path / "whole", TWO)
    assert equal(tmp_path / "run", tmp_path / "whole")


def test_a_tuned_json_is_trained_by_its_trainers(write_tuned, small_folder_graph, tmp_path, capsys):
    config = write_tuned(config=TrainConfig(batch_size=256, trainers=2, prefetch_depth=1, adapt="on"))
    common = ["train", "--config", str(config), "--epochs", "1", "--quiet"]
    with pytest.raises(SystemExit) as ended:
        main([*common, "--out", str(tmp_path / "run")])
    assert not ended.value.code
    told = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (told["trainers"]["prefetch"], told["trainers"]["changes"]) == ([1, 1, 1], [])
    assert told["config"]["trainers"] == 2
    assert "prefetch 1,1,1" in " ".join(capsys.readouterr().out.split())


def test_a_loop_of_ones_own_is_one_trainer_and_is_told_so(tiny_graph):
    config = TWO.replace(prefetch_depth=1)
    with pytest.raises(
        UsageError, match="trainers must be 1 in your own loop, which is one trainer, got 2; train with"
    ):
        Loader(tiny_graph, [4, 3], config=config)


class Ranks(Alone):
    """What a process of torchrun is, as far as trainers are concerned."""

    def __init__(self, count: int, algorithm: str | None = None) -> None:
        self.count, self._algorithm = count, algorithm

    @property
    def algorithm(self) -> str | None:
        return self._algorithm


@pytest.mark.parametrize("us", [Ranks(2), Ranks(1, "distdgl")], ids=["two ranks", "an algorithm"])
def test_where_ranks_train_a_configurations_trainers_are_left_out_and_a_line_says_so(us, tiny_graph):
    lines: list[str] = []
    request = TrainRequest(tiny_graph, TWO.replace(prefetch_depth=1, adapt="on", resources="auto"), TASK, None)
    found, several, *_ = open_request(Trainers(), request, us, None, lines.append)
    assert (found.config, several) == (TWO.replace(trainers=1), None)
    (line,) = lines
    assert line.startswith("the configuration's trainers (2) count as 1 ")
    alone = dataclasses.replace(request, config=TrainConfig())
    assert open_request(Trainers(), alone, us, None, lines.append)[:2] == (alone, None)
    assert lines == [line]


def test_what_is_said_of_trainers_is_refused_beside_an_algorithm(tiny_graph):
    request, us = TrainRequest(tiny_graph, TrainConfig(batch_size=32), TASK, None), Ranks(1, "distdgl")
    with pytest.raises(UsageError, match=r"adapt must be left out with algorithm, .*, got distdgl"):
        open_request(Trainers(adapt=True), request, us, None, print)
    with pytest.raises(UsageError, match="trainers must be left out with algorithm"):
        open_request(Trainers("cpu:1,cpu:1"), request, us, None, print)
