"""`train_auto` with real trainings and a real tune of small graphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.ending import End
from a3gnn.tuning import auto
from a3gnn.tuning.auto import AutoState, train_auto


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)
    return found


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(Task(hidden_channels=8, lr_schedule="linear", lr_epochs=11), id="falling rate"),
        pytest.param(Task(hidden_channels=16, fanouts=(5, 5)), id="until nothing improves", marks=pytest.mark.slow),
    ],
)
def test_a_training_too_short_for_a_tune_is_the_baselines(
    small_folder_graph: Graph, task: Task, tmp_path: Path
) -> None:
    lines: list[str] = []
    result = train_auto(small_folder_graph, task=task, out=tmp_path / "auto", notify=lines.append)
    alone = train(TrainConfig(), small_folder_graph, task=task, out=tmp_path / "alone", notify=lambda line: None)
    trained = result.trained
    assert (trained.ended, trained.epochs, trained.test_accuracy) == (alone.ended, alone.epochs, alone.test_accuracy)
    assert_same_weights(tmp_path / "auto" / "baseline", tmp_path / "alone")
    assert not (tmp_path / "auto" / "tune").exists()
    assert any(line.startswith("the baseline's training has ended after ") for line in lines)
    assert not any("epochs ended" in line for line in lines)  # what looks at the curve is not shown
    state = AutoState.read(tmp_path / "auto")
    assert state == result.state
    assert not state.tunes
    assert result.describe().endswith("in all, all of them training of the baseline")
    with pytest.raises(UsageError, match="must be a new or empty folder; add resume=True"):
        train_auto(small_folder_graph, task=task, out=tmp_path / "auto", notify=lines.append)


@pytest.mark.slow
def test_a_tune_comes_first_where_it_pays_and_a_stopped_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tune of some seconds, and Ctrl-C before its first trial."""
    monkeypatch.setattr(auto, "LEAST_S", 1.0)
    graph = "synthetic:nodes=20000,degree=30,classes=8,features=64,noise=3"
    task = Task(hidden_channels=64, lr_schedule="linear", lr_epochs=240)  # its end is known, and far enough
    lines: list[str] = []

    def stop(line: str) -> None:
        lines.append(line)
        if line.startswith("baseline "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"the same call with out=.*/auto', resume=True goes on"):
        train_auto(graph, task=task, out=tmp_path / "auto", notify=stop)
    said = next(line for line in lines if "comes first" in line)
    assert "expected to stop improving after" in said
    before = AutoState.read(tmp_path / "auto")
    assert before.tunes
    assert before.budget_s >= 1.0
    assert before.tune_s > 0
    result = train_auto(graph, task=task, out=tmp_path / "auto", resume=True, notify=lines.append)
    state = AutoState.read(tmp_path / "auto")
    assert (state.baseline_s, state.expected_s) == (before.baseline_s, before.expected_s)
    assert state.tune_s > before.tune_s
    assert state.train_s > 0
    assert (result.trained.ended, result.trained.epochs) == (End.EPOCHS, 240)
    assert lines.count(said) == 1
    kept = json.loads((tmp_path / "auto" / "tune" / "tuned.json").read_text())
    if result.tuned is None:
        assert result.trained.folder == tmp_path / "auto" / "baseline"
        assert kept["config"] == TrainConfig().canonical().to_dict()
    else:
        assert result.trained.folder == tmp_path / "auto" / "choice"
        assert result.trained.config == result.tuned.config
    assert "the baseline alone was expected to take" in result.describe()
    assert result.to_dict()["auto"]["total_s"] == state.total_s
