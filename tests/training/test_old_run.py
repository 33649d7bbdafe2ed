"""Runs that an earlier version (commit 777e614) left off after two epochs and one mini-batch go on as they did there.

`old_run` holds, for each model, the checkpoint and the best epoch's weights that Ctrl-C left, and `whole.jsonl`: the
metrics.jsonl of the same four epochs without the interruption, trained by that version as well.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.checkpoint import identity, restore_checkpoint
from a3gnn.training.trainer import Trainer, TrainerOptions

OLD = Path(__file__).parent / "old_run"
SPEC = "synthetic:nodes=200,degree=6,classes=3,features=5"
CONFIG = TrainConfig(batch_size=32, cache_bytes=2000, bias_rate=4.0)


def whole(model: str) -> list[dict]:
    return [json.loads(line) for line in (OLD / model / "whole.jsonl").read_text(encoding="utf-8").splitlines()]


def figures(epoch: dict) -> dict:
    """Returns what depends on neither the machine's speed nor, as accuracies may, on the last bit of a sum."""
    return {name: epoch[name] for name in ("epoch", "loss", "cache_hit_rate")}


@pytest.fixture(params=["sage", "gat"])
def task(request: pytest.FixtureRequest) -> Task:
    return Task(model=request.param, hidden_channels=4, heads=2, fanouts=(4, 3), learning_rate=0.01)


def test_its_checkpoint_sets_weights_moments_and_progress(task: Task, tmp_path: Path) -> None:
    path = OLD / task.model / "checkpoint.pt"
    written = torch.load(path, weights_only=True)
    graph = Graph.load(SPEC)
    with Trainer(graph, CONFIG, task, TrainerOptions(scratch=tmp_path), device="cpu") as trainer:
        before = trainer.model.state_dict()
        assert not all(torch.equal(before[name], written["model"][name]) for name in written["model"])
        progress = restore_checkpoint(path, trainer, identity(graph, CONFIG, task))
        weights, moments = trainer.model.state_dict(), trainer.optimizer.state_dict()["state"]
        shapes = [weight.shape for weight in trainer.model.parameters()]
    assert weights.keys() == written["model"].keys()
    assert all(torch.equal(weights[name], written["model"][name]) for name in weights)
    for index, shape in enumerate(shapes):
        assert moments[index]["step"] == 2 * 2 + 1
        assert moments[index]["exp_avg"].shape == shape
        assert torch.equal(moments[index]["exp_avg_sq"], written["optimizer"]["state"][index]["exp_avg_sq"])
    for epoch, line in zip(progress.epochs, whole(task.model)[:2], strict=True):
        assert figures(epoch.to_dict()) == figures(line)
        assert epoch.val_accuracy == line["val_accuracy"]
    assert progress.points == []
    assert progress.eval_s == sum(epoch.eval_s for epoch in progress.epochs) > 0
    assert (progress.under_way.batches, progress.under_way.seeds) == (1, 32)


def test_its_run_goes_on_to_the_same_figures(task: Task, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(OLD / task.model, out, ignore=shutil.ignore_patterns("whole.jsonl"))
    result = train(CONFIG, SPEC, task=task, epochs=4, out=out, resume=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    # Sums in another order, as other processors add them, move a loss by some units of float32 (2^-23) per step.
    assert [figures(line) for line in lines] == [pytest.approx(figures(e), rel=1e-4) for e in whole(task.model)]
    assert result.epochs == 4
    assert (out / "model.pt").is_file()
