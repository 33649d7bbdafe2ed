"""`train(adapt=True)` and `a3gnn train --adapt` of one trainer: what is told, kept and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.cli.main import main
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.adapting.trainer import AdaptingTrainer, check_adapting
from tests.training.adapting.sizes import draw_sizes
from tests.training.equality import difference

TASK = Task(hidden_channels=8, fanouts=(4, 3))
CONFIG = TrainConfig(batch_size=8, cache_bytes=20_000, feature_tier="disk")


def run(graph: Graph, out: Path, config: TrainConfig = CONFIG, **others: Any) -> Any:
    given: dict[str, Any] = {"task": TASK, "epochs": 3, "out": out, "notify": lambda line: None, "adapt": True}
    return train(config, graph, **given | others)


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of runs take any size."""
    made = AdaptingTrainer.__init__

    def init(self: AdaptingTrainer, *given: Any, **others: Any) -> None:
        made(self, *given, **others)
        draw_sizes(self.division, 1, CONFIG.cache_bytes)

    monkeypatch.setattr(AdaptingTrainer, "__init__", init)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)
    return found


def test_the_log_and_the_result_say_what_changed(tiny_folder_graph, tmp_path, drawing):
    told: list[str] = []
    found = run(tiny_folder_graph, tmp_path / "run", epochs=8, notify=told.append)
    adapted = json.loads((tmp_path / "run" / "result.json").read_text())["adapted"]
    assert adapted == found.adapted
    first, second, *rest = adapted["changes"]
    assert first["before"] == CONFIG.cache_bytes
    assert second["before"] == first["now"]
    assert adapted["cache_bytes"] == [first, second, *rest][-1]["now"]
    assert len([line for line in told if line.startswith("adapt: epoch ")]) == len(adapted["changes"])


def with_search(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a checkpoint as a version that also searched for another mode wrote it."""

    def preparation(cache_bytes: int) -> dict[str, Any]:
        return {"mode": "mode1", "workers": 2, "depth": 3, "cache_bytes": cache_bytes}

    watch = state["division"]
    changes = [
        change | {"before_s": None, "after_s": None} | {name: preparation(change[name]) for name in ("before", "now")}
        for change in watch["changes"]
    ]
    old = {"shrunk": None, "start": preparation(watch["start"]), "preparation": preparation(watch["cache_bytes"])}
    return state | {"division": old | {"changes": changes}}


def test_a_changed_run_is_gone_on_with_and_learns_what_one_without_does(tiny_folder_graph, tmp_path, drawing):
    """Bit for bit: with its checkpoint or an older version's, without --adapt, and by a run that begins to adapt."""
    fixed = run(tiny_folder_graph, tmp_path / "fixed", adapt=False, epochs=6)
    assert fixed.adapted is None
    for name in ("changed", "not any more", "older"):
        before = run(tiny_folder_graph, tmp_path / name, epochs=4)
    assert before.adapted["changes"]
    path = tmp_path / "older" / "checkpoint.pt"
    torch.save(with_search(torch.load(path, weights_only=True)), path)
    told: list[str] = []
    for name in ("changed", "older"):
        told.clear()
        changed = run(tiny_folder_graph, tmp_path / name, epochs=6, resume=True, notify=told.append)
        assert changed.adapted["changes"][: len(before.adapted["changes"])] == before.adapted["changes"]
        lines = [line for line in told if line.startswith("adapt: the checkpoint is of a version that also changed")]
        assert len(lines) == (name == "older")
    run(tiny_folder_graph, tmp_path / "not any more", epochs=6, resume=True, adapt=False)
    run(tiny_folder_graph, tmp_path / "from now on", epochs=1, adapt=False)
    run(tiny_folder_graph, tmp_path / "from now on", epochs=6, resume=True)
    for name in ("changed", "older", "not any more", "from now on"):
        assert difference(weights(tmp_path / name), weights(tmp_path / "fixed")) == 0.0, name


def own_model(in_channels: int, out_channels: int) -> torch.nn.Module:
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(in_channels, 8, 2, out_channels)


def test_a_model_of_the_users_adapts(tiny_folder_graph, tmp_path, drawing):
    task = Task(model=f"{__name__}:own_model", fanouts=(4, 3))
    run(tiny_folder_graph, tmp_path / "fixed", task=task, adapt=False)
    found = run(tiny_folder_graph, tmp_path / "run", task=task)
    assert found.adapted["changes"]
    assert difference(weights(tmp_path / "run"), weights(tmp_path / "fixed")) == 0.0


def test_what_cannot_adapt_is_refused(tiny_folder_graph, tmp_path):
    auto = TrainConfig(batch_size=8, parallel_mode="mode1", resources="auto")
    with pytest.raises(UsageError, match="resources must be free with adapt, got 'auto'"):
        run(tiny_folder_graph, tmp_path / "run", auto)
    with pytest.raises(UsageError, match="adapt must be left out with 2 processes of torchrun"):
        check_adapting(tiny_folder_graph, CONFIG, 2)
    with pytest.raises(UsageError, match="adapt must be True or False"):
        run(tiny_folder_graph, tmp_path / "run", adapt="yes")


def test_the_command_takes_the_flag(write_tuned, small_folder_graph, tmp_path, capsys):
    config = write_tuned(config=TrainConfig(batch_size=64, cache_bytes=20_000))
    common = ["train", "--config", str(config), "--epochs", "2", "--adapt"]
    with pytest.raises(SystemExit) as ended:
        main([*common, "--out", str(tmp_path / "run"), "--json"])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["adapted"] == {"cache_bytes": 20_000, "changes": []}
    with pytest.raises(SystemExit) as ended:
        main([*common, "--out", str(tmp_path / "other"), "--quiet"])
    assert not ended.value.code
    assert "Adapted    0 changes; in the end cache 19.5 KiB" in capsys.readouterr().out
