"""`train_auto` with real trainings of small graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import A3GNNError, MemoryLimitError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.ending import End
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning import auto
from a3gnn.tuning import recommend as recommending
from a3gnn.tuning.auto import AutoResult, AutoState, is_better, train_auto
from a3gnn.tuning.recommend import recommend
from a3gnn.tuning.recommend_first import recommend_first
from tests.shipped import shipped

GRAPH = "synthetic:nodes=20000,degree=30,classes=8,features=64,noise=3"
TASK = Task(hidden_channels=64)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the recommendation made in this process, from few measurements as quick processes do, in seconds less."""
    monkeypatch.setattr(auto, "recommend_apart", recommend_first)
    monkeypatch.setattr(recommending, "shipped_measurements", lambda typed: shipped(150))


def linear(in_channels: int, out_channels: int) -> torch.nn.Linear:
    return torch.nn.Linear(in_channels, out_channels)


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
def test_a_short_training_is_the_baselines(small_folder_graph: Graph, task: Task, tmp_path: Path) -> None:
    lines: list[str] = []
    # 600 s: it ends before, on a busy machine, too
    result = train_auto(small_folder_graph, task=task, out=tmp_path / "auto", notify=lines.append, first_s=600.0)
    alone = train(TrainConfig(), small_folder_graph, task=task, out=tmp_path / "alone", notify=lambda line: None)
    trained = result.trained
    assert (trained.ended, trained.epochs, trained.test_accuracy) == (alone.ended, alone.epochs, alone.test_accuracy)
    assert_same_weights(tmp_path / "auto" / "baseline", tmp_path / "alone")
    assert not (tmp_path / "auto" / "recommended").exists()
    assert "the baseline's training has ended meanwhile: there is no time to save" in lines
    assert not any("epochs ended" in line for line in lines)  # what looks at the curve is not shown
    state = AutoState.read(tmp_path / "auto")
    assert state == result.state
    assert state.trains == "baseline"
    assert result.describe().endswith("in all, all of them training of the baseline")
    with pytest.raises(UsageError, match="must be a new or empty folder; add resume=True"):
        train_auto(small_folder_graph, task=task, out=tmp_path / "auto", notify=lines.append, first_s=600.0)


def stopping(lines: list[str], begin: str) -> Callable[[str], None]:
    """Returns a listener that presses Ctrl-C at the first line that begins so."""

    def notify(line: str) -> None:
        lines.append(line)
        if line.startswith(begin):
            raise KeyboardInterrupt

    return notify


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("at", ["the baseline trains", "recommended: ", "epoch   9"])
def test_the_choice_trains_on_from_where_it_was_compared(
    at: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C at the start, after the recommendation or at the end; then the rest."""
    monkeypatch.setattr(auto, "is_better", lambda choice, baseline: choice.epochs == baseline.epochs)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt, match=r"the same call with out=.*/auto', resume=True goes on"):
        train_auto(GRAPH, task=TASK, epochs=9, out=tmp_path / "auto", notify=stopping(lines, at), first_s=0.01)
    before = AutoState.read(tmp_path / "auto")
    assert before.trains == ("choice" if at == "epoch   9" else None)
    assert (before.baseline_s > 0) == (at != "the baseline trains")
    result = train_auto(
        GRAPH, task=TASK, epochs=9, out=tmp_path / "auto", resume=True, notify=lines.append, first_s=0.01
    )
    assert result.state.trains == "choice"
    assert result.state == AutoState.read(tmp_path / "auto")
    assert len([line for line in lines if line.endswith("the choice's training goes on")]) == 1
    chosen = TunedConfig.read(tmp_path / "auto" / "recommended")
    assert result.chosen == chosen
    learns = {"input_aggregation": "full", "compute_dtype": chosen.config.compute_dtype}  # not everywhere bfloat16
    assert chosen.config.learning_values() == TrainConfig().learning_values() | learns
    assert (result.trained.ended, result.trained.epochs) == (End.EPOCHS, 9)
    train(chosen, GRAPH, task=TASK, epochs=9, out=tmp_path / "alone", notify=lambda line: None)
    assert_same_weights(tmp_path / "auto" / "choice", tmp_path / "alone")
    assert "then the choice" in result.describe()
    assert result.to_dict()["auto"]["total_s"] == result.state.total_s


@pytest.mark.usefixtures("here")
def test_who_wants_more_epochs_is_told_the_folder_of_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(auto, "is_better", lambda choice, baseline: False)
    lines: list[str] = []
    result = train_auto(GRAPH, task=TASK, epochs=3, out=tmp_path / "auto", notify=lines.append, first_s=0.01)
    assert any(line.endswith("the baseline's training goes on") for line in lines)
    assert (result.chosen, result.state.trains, result.trained.epochs) == (None, "baseline", 3)
    assert result.trained.still_improving
    assert any(f"epochs=6, out='{tmp_path}/auto', resume=True goes on" in line for line in lines)
    longer = train_auto(
        GRAPH, task=TASK, epochs=6, out=tmp_path / "auto", resume=True, notify=lines.append, first_s=0.01
    )
    train(TrainConfig(), GRAPH, task=TASK, epochs=6, out=tmp_path / "alone", notify=lambda line: None)
    assert longer.trained.epochs == 6
    assert_same_weights(tmp_path / "auto" / "baseline", tmp_path / "alone")


def test_the_faster_one_is_better_unless_it_learns_less(small_folder_graph: Graph, tmp_path: Path) -> None:
    task = Task(hidden_channels=8)
    one = train(TrainConfig(), small_folder_graph, task=task, epochs=1, out=tmp_path / "one", notify=lambda line: None)
    faster = dataclasses.replace(one, seconds_per_epoch=one.seconds_per_epoch / 2)
    assert is_better(faster, one)
    assert not is_better(one, faster)
    assert is_better(dataclasses.replace(faster, val_accuracy=one.val_accuracy - 0.004), one)
    assert not is_better(dataclasses.replace(faster, val_accuracy=one.val_accuracy - 0.006), one)
    assert not is_better(dataclasses.replace(faster, val_accuracy=float("nan")), one)


def test_the_baseline_goes_on_where_nothing_is_recommended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def infeasible(*args: object) -> None:
        raise A3GNNError("nothing is predicted to keep 1 MiB")

    monkeypatch.setattr(auto, "recommend_apart", infeasible)
    lines: list[str] = []
    result = train_auto(GRAPH, task=TASK, epochs=3, out=tmp_path / "auto", notify=lines.append, first_s=0.01)
    assert result.trained.folder == tmp_path / "auto" / "baseline"
    assert not (tmp_path / "auto" / "choice").exists()
    assert lines[lines.index("the baseline's training goes on") - 1] == "nothing is predicted to keep 1 MiB"


def test_the_baseline_goes_on_where_it_is_recommended(tmp_path: Path) -> None:
    fixed = {knob.name: knob.default for knob in KNOBS}
    recommend(GRAPH, task=TASK, fix=fixed, out=tmp_path / "auto" / "recommended", notify=lambda line: None)
    lines: list[str] = []
    result = train_auto(
        GRAPH, task=TASK, epochs=3, out=tmp_path / "auto", resume=True, notify=lines.append, first_s=0.01
    )
    assert (result.chosen, result.state.trains) == (None, "baseline")
    assert "nothing is predicted to be faster than the baseline" in lines


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("fits", [True, False])
def test_where_the_baseline_does_not_fit_the_recommendation_trains(
    fits: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def first_epochs(self: Any, first_s: float) -> None:
        raise MemoryLimitError("the training takes 1.2 GiB of 1 GiB")

    monkeypatch.setattr(auto._Auto, "_first_epochs", first_epochs)
    limit, lines = "8GiB" if fits else "100MiB", list[str]()

    def run() -> AutoResult:
        return train_auto(
            GRAPH, task=TASK, epochs=2, host_memory_limit=limit, out=tmp_path / "auto", notify=lines.append
        )

    if fits:
        assert run().trained.folder == tmp_path / "auto" / "choice"
    else:
        with pytest.raises(MemoryLimitError, match=r"the training takes 1\.2 GiB"):
            run()
    assert any(line.startswith("the baseline does not fit: the training takes 1.2 GiB") for line in lines)
    assert any("the host memory limit must exceed" in line for line in lines) != fits


@pytest.mark.parametrize("target", ["user", "user,buys,item"])
def test_node_types_and_links_are_refused_before_anything_is_trained(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "typed.npz",
        node_types=np.array(["user", "item"]),
        num_nodes=np.array([30, 20]),
        edge_types=np.array(["user__buys__item"]),
        edge_index__user__buys__item=np.stack([rng.integers(30, size=200), rng.integers(20, size=200)]),
        y__user=rng.integers(2, size=30),
    )
    with pytest.raises(UsageError, match="got rsage: nothing was measured of your own, or of models for node types"):
        train_auto(f"target:{target}:{tmp_path / 'typed.npz'}", out=tmp_path / "auto", notify=lambda line: None)
    assert not (tmp_path / "auto").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": linear}, r"model must be a built-in one, got .*a3gnn tune measures it"),
        ({"epochs": 0}, "epochs must be"),
        ({"patience": 0}, "patience must be"),
        ({"patience": None}, "patience=None needs epochs"),
        ({"host_memory_limit": "much"}, "host_memory_limit: a size is"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        train_auto(GRAPH, **options, out=tmp_path / "auto", notify=lambda line: None)
    assert not (tmp_path / "auto").exists()
