"""`train(adapt=True)` and `a3gnn train --adapt` of one trainer: what is told, kept and refused."""

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
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.preparation import Preparation
from a3gnn.task import Task
from a3gnn.training.adapting import trainer as trainer_module
from a3gnn.training.adapting.stage_times import Adjusts
from a3gnn.training.adapting.trainer import check_adapting, times_measured
from a3gnn.training.request import TrainRequest
from a3gnn.training.tuned import TunedConfig
from tests.training.adapting.controllers import RandomPreparations, Stays
from tests.training.equality import difference

TASK = Task(hidden_channels=8, fanouts=(4, 3))
CONFIG = TrainConfig(batch_size=8)


def run(graph: Graph, out: Path, config: TrainConfig = CONFIG, **others: Any) -> Any:
    given: dict[str, Any] = {"task": TASK, "epochs": 3, "out": out, "notify": lambda line: None, "adapt": True}
    return train(config, graph, **given | others)


@pytest.fixture
def controlled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Adjusts[Preparation]], None]:
    """Returns what has runs take a controller of the test's."""

    def by(controller: Adjusts[Preparation]) -> None:
        monkeypatch.setattr(trainer_module, "Searching", lambda candidates, expected: controller)

    return by


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)
    return found


def test_the_log_and_the_result_say_what_changed(tiny_folder_graph, tmp_path, controlled):
    controlled(RandomPreparations(1))
    told: list[str] = []
    found = run(tiny_folder_graph, tmp_path / "run", notify=told.append)
    adapted = json.loads((tmp_path / "run" / "result.json").read_text())["adapted"]
    assert adapted == found.adapted
    first, second, *rest = adapted["changes"]
    assert first["before"] == Preparation.of(CONFIG).to_dict()
    assert second["before"] == first["now"]
    assert adapted["preparation"] == [first, second, *rest][-1]["now"]
    assert first["before_s"] > 0 < first["after_s"]
    own = [line for line in told if line.startswith("adapt: ")]
    assert len(own) == sum(1 + (change["after_s"] is not None) for change in (first, second, *rest))


def test_a_changed_run_is_gone_on_with_and_learns_what_one_without_does(tiny_folder_graph, tmp_path, controlled):
    """Bit for bit: with what the checkpoint says, without --adapt, and by a run that begins to adapt."""
    fixed = run(tiny_folder_graph, tmp_path / "fixed", adapt=False)
    assert fixed.adapted is None
    wanted = Preparation("mode1", 2, 3, 0)
    controlled(Stays(wanted))
    for name in ("changed", "not any more"):
        run(tiny_folder_graph, tmp_path / name, epochs=2)
    stays = Stays(wanted)
    controlled(stays)
    changed = run(tiny_folder_graph, tmp_path / "changed", resume=True)
    assert set(stays.told) <= {wanted}
    assert len(changed.adapted["changes"]) == 1
    run(tiny_folder_graph, tmp_path / "not any more", resume=True, adapt=False)
    run(tiny_folder_graph, tmp_path / "from now on", epochs=1, adapt=False)
    run(tiny_folder_graph, tmp_path / "from now on", resume=True)
    for name in ("changed", "not any more", "from now on"):
        assert difference(weights(tmp_path / name), weights(tmp_path / "fixed")) == 0.0, name


def own_model(in_channels: int, out_channels: int) -> torch.nn.Module:
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(in_channels, 8, 2, out_channels)


def test_a_model_of_the_users_adapts(tiny_folder_graph, tmp_path, controlled):
    task = Task(model=f"{__name__}:own_model", fanouts=(4, 3))
    run(tiny_folder_graph, tmp_path / "fixed", task=task, adapt=False)
    controlled(RandomPreparations(2))
    found = run(tiny_folder_graph, tmp_path / "run", task=task)
    assert found.adapted["changes"]
    assert difference(weights(tmp_path / "run"), weights(tmp_path / "fixed")) == 0.0


def test_what_the_tune_measured_counts_on_its_graph_and_configuration(
    write_tuned, small_folder_graph, tiny_folder_graph
):
    tuned = TunedConfig.read(write_tuned(config=CONFIG))
    request = TrainRequest(small_folder_graph, CONFIG, tuned.setting.task, tuned)
    assert request.promised == tuned.measured is not None
    assert times_measured(tuned.measured).iteration == pytest.approx(1 / (25.0 * 10))
    others = (
        dataclasses.replace(request, graph=tiny_folder_graph),
        dataclasses.replace(request, config=CONFIG.replace(num_workers=2, parallel_mode="mode1")),
        dataclasses.replace(request, task=dataclasses.replace(request.task, hidden_channels=99)),
        dataclasses.replace(request, tuned=None),
    )
    assert [one.promised for one in others] == [None] * 4


def test_what_cannot_adapt_is_refused(tiny_folder_graph, tmp_path):
    auto = TrainConfig(batch_size=8, parallel_mode="mode1", resources="auto")
    with pytest.raises(UsageError, match="resources must be free with adapt, got 'auto'"):
        run(tiny_folder_graph, tmp_path / "run", auto)
    with pytest.raises(UsageError, match="adapt must be left out with 2 processes of torchrun"):
        check_adapting(tiny_folder_graph, CONFIG, 2)
    with pytest.raises(UsageError, match="adapt must be True or False"):
        run(tiny_folder_graph, tmp_path / "run", adapt="yes")


def test_the_command_takes_the_flag(write_tuned, small_folder_graph, tmp_path, capsys, controlled):
    controlled(Stays(Preparation.of(CONFIG)))  # what stages take here decides nothing
    config = write_tuned(config=TrainConfig(batch_size=64))
    common = ["train", "--config", str(config), "--epochs", "2", "--adapt"]
    with pytest.raises(SystemExit) as ended:
        main([*common, "--out", str(tmp_path / "run"), "--json"])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["adapted"]["preparation"]["mode"] == "sequential"
    with pytest.raises(SystemExit) as ended:
        main([*common, "--out", str(tmp_path / "other"), "--quiet"])
    assert not ended.value.code
    assert "Adapted    0 changes; in the end sequential" in capsys.readouterr().out
