"""`train(adapt=True)` and `a3gnn train --adapt`: what is told, kept and refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.cli.main import main
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.control.controller import Controller
from a3gnn.hybrid.trainers import opening
from a3gnn.hybrid.trainers.request import Trainers
from a3gnn.task import Task
from tests.hybrid.trainers.controllers import Once, Random
from tests.training.equality import difference

TASK = Task(model="gin", hidden_channels=8, fanouts=(4, 3))
CONFIG = TrainConfig(batch_size=8)
TWO: dict[str, Any] = {"trainers": "cpu:1,cpu:1", "adapt": True}


def run(graph: Graph, out: Path, config: TrainConfig = CONFIG, **others: Any) -> Any:
    given: dict[str, Any] = {"task": TASK, "epochs": 3, "out": out, "notify": lambda line: None}
    return train(config, graph, **given | TWO | others)


@pytest.fixture
def controlled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Controller], None]:
    """Returns what has runs take a controller of the test's."""

    def by(controller: Controller) -> None:
        monkeypatch.setattr(opening, "default_controller", lambda config, devices, prefetch: controller)

    return by


def test_the_log_and_the_result_say_what_changed_and_why_and_what_it_gained(tiny_folder_graph, tmp_path, controlled):
    controlled(Random(1))
    told: list[str] = []
    found = run(tiny_folder_graph, tmp_path / "run", notify=told.append)
    trainers = json.loads((tmp_path / "run" / "result.json").read_text())["trainers"]
    assert trainers == found.trainers
    first, second, *rest = trainers["changes"]
    assert trainers["shares"] == [first, second, *rest][-1]["shares"] != [4, 4]
    assert trainers["threads"] == [1, 1]
    assert first["shares_before"] == [4, 4]
    assert second["shares_before"] == first["shares"]
    assert first["before_s"] > 0 < first["after_s"]
    own = [line for line in told if line.startswith("adapt: ")]
    assert f"shares 4,4 -> {','.join(map(str, first['shares']))}: " in own[0]
    assert "propagation" in own[0] or "took" in own[0]
    assert "per mini-batch before" in own[1]
    assert len(own) == sum(1 + (change["after_s"] is not None) for change in (first, second, *rest))


def test_a_resumed_run_goes_on_with_the_shares_of_the_checkpoint(tiny_folder_graph, tmp_path, controlled, monkeypatch):
    controlled(Once((7, 1)))
    first = run(tiny_folder_graph, tmp_path / "run", epochs=2)
    assert first.trainers["shares"] == [7, 1]
    assert len(first.trainers["changes"]) == 1
    stays = Once((7, 1))
    controlled(stays)
    opened = []
    real = opening.OpenRequest.trainer

    def noted(one: opening.OpenRequest, options: Any) -> Any:
        opened.append(real(one, options))
        return opened[-1]

    monkeypatch.setattr(opening.OpenRequest, "trainer", noted)
    found = run(tiny_folder_graph, tmp_path / "run", resume=True)
    assert set(stays.told) == {(7, 1)}
    assert {tuple(one.seeds for one in step.trainers) for step in opened[0].steps(3)} >= {(7, 1)}
    assert found.trainers["changes"] == first.trainers["changes"]
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["trainers"][0]["seeds"] > 5 * last["trainers"][1]["seeds"]
    with pytest.raises(ConfigError, match="adapt was True and is None"):
        run(tiny_folder_graph, tmp_path / "run", resume=True, epochs=4, adapt=False)


def test_what_adapts_learns_what_does_not(tiny_folder_graph, tmp_path, controlled):
    given: dict[str, Any] = {"task": dataclasses.replace(TASK, model="sage")}
    expected = run(tiny_folder_graph, tmp_path / "fixed", adapt=False, **given)
    assert "changes" not in expected.trainers
    controlled(Random(2))
    run(tiny_folder_graph, tmp_path / "run", **given)
    one, other = (torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("fixed", "run"))
    assert difference(one, other) < 1e-3


def test_simulated_accelerators_adapt_by_the_seconds_that_they_tell(tiny_folder_graph, tmp_path):
    found = run(tiny_folder_graph, tmp_path / "run", trainers="cpu:1,sim:u250", trainer_shares=(4, 4), epochs=6)
    assert sum(found.trainers["shares"]) == 8
    for change in found.trainers["changes"]:
        assert sum(change["shares"]) == 8


def own_model(in_channels: int, out_channels: int) -> torch.nn.Module:
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(in_channels, 8, 2, out_channels)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one trainer": ({"trainers": "cpu:2"}, "must name two or more with adapt, got cpu:2; name another"),
    "independent": ({"trainer_sampling": "independent"}, "must be whole with adapt, got 'independent'"),
    "not a flag": ({"adapt": "yes"}, "adapt must be True or False"),
    "own model": ({"task": Task(model=f"{__name__}:own_model")}, "must be a built-in one"),
}


@pytest.mark.parametrize(("given", "law"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_adapted_is_refused(given, law, tiny_folder_graph, tmp_path):
    with pytest.raises(UsageError, match=law):
        run(tiny_folder_graph, tmp_path / "run", **given)


def test_under_torchrun_it_is_refused(tiny_folder_graph):
    with pytest.raises(match="torchrun starts 2 processes"):
        Trainers("cpu:1,cpu:1", adapt=True).on(tiny_folder_graph, CONFIG, TASK, processes=2)


def test_the_command_takes_the_flag(write_tuned, small_folder_graph, tmp_path, capsys):
    config = write_tuned(config=TrainConfig(batch_size=64))
    common = ["train", "--config", str(config), "--epochs", "2", "--adapt", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main([*common, "--trainers", "cpu:1,cpu:1", "--json"])
    assert not ended.value.code
    trainers = json.loads(capsys.readouterr().out)["trainers"]
    assert sum(trainers["shares"]) == 64
    assert "changes" in trainers
    with pytest.raises(SystemExit) as ended:
        main([*common[:-1], str(tmp_path / "no"), "--trainers", "cpu:1"])
    assert ended.value.code == 2
    assert "--trainers must name two or more with --adapt" in " ".join(capsys.readouterr().err.split())
