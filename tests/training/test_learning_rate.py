"""The learning rate at each mini-batch: the task's, scaled, after a warm-up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.graphs.graph import Graph
from a3gnn.models.adam import Adam
from a3gnn.task import Task
from a3gnn.training.learner import LearningRate
from a3gnn.training.trainer import Trainer, TrainerOptions

TASK = Task(hidden_channels=8, fanouts=(4, 3), learning_rate=0.01)
CONFIG = TrainConfig(batch_size=32)


def test_without_a_scale_it_is_the_tasks_to_the_bit() -> None:
    rate = LearningRate.of(TASK, CONFIG, 30)
    assert {rate.at(batch) for batch in range(100)} == {0.01}


def test_a_smaller_one_needs_no_warm_up() -> None:
    rate = LearningRate.of(TASK, CONFIG.replace(learning_rate_scale=0.5), 30)
    assert {rate.at(batch) for batch in range(100)} == {0.005}


@pytest.mark.parametrize(("batches_per_epoch", "warm_up"), [(1, 20), (20, 20), (50, 50)])
def test_a_larger_one_is_reached_linearly_over_an_epoch(batches_per_epoch: int, warm_up: int) -> None:
    rate = LearningRate.of(TASK, CONFIG.replace(learning_rate_scale=4.0), batches_per_epoch)
    expected = [0.01 + 0.03 * min(1.0, batch / warm_up) for batch in range(1, 101)]
    assert [rate.at(batch) for batch in range(100)] == pytest.approx(expected)
    assert rate.at(warm_up - 2) < rate.at(warm_up - 1) == pytest.approx(0.04)


def test_a_schedule_falls_to_zero_over_its_epochs_and_stays_there() -> None:
    linear, cosine = (
        LearningRate.of(dataclasses.replace(TASK, lr_schedule=name, lr_epochs=3), CONFIG, 20)
        for name in ("linear", "cosine")
    )
    assert [linear.at(batch) for batch in (0, 15, 30, 60, 1000)] == pytest.approx([0.01, 0.0075, 0.005, 0, 0])
    found = [cosine.at(batch) for batch in (0, 20, 30, 40, 60, 1000)]
    assert found == pytest.approx([0.01, 0.0075, 0.005, 0.0025, 0, 0])
    assert linear.at(60) == cosine.at(60) == cosine.at(61) == 0.0
    for rate in (linear, cosine):
        falling = [rate.at(batch) for batch in range(61)]
        assert falling == sorted(falling, reverse=True)
        assert falling[59] > 0


def test_a_schedule_takes_its_share_of_a_warm_up_too() -> None:
    scaled = CONFIG.replace(learning_rate_scale=4.0)
    plain = LearningRate.of(TASK, scaled, 30)
    falling = LearningRate.of(dataclasses.replace(TASK, lr_schedule="linear", lr_epochs=10), scaled, 30)
    for batch in (0, 10, 29, 30, 150, 299, 300):
        assert falling.at(batch) == pytest.approx(plain.at(batch) * (1 - batch / 300))


def test_a_schedule_has_epochs_and_a_constant_rate_none() -> None:
    with pytest.raises(ConfigError, match="lr_epochs must be an integer >= 1, got None; lr_schedule cosine falls over"):
        Task(lr_schedule="cosine")
    with pytest.raises(ConfigError, match="lr_epochs must be left out if lr_schedule is constant, got 5"):
        Task(lr_epochs=5)
    with pytest.raises(ConfigError, match="lr_schedule must be"):
        Task(lr_schedule="cosin")  # type: ignore[arg-type]
    task = Task(lr_schedule="linear", lr_epochs=5)
    assert Task.from_dict(task.to_dict()) == task
    assert task.with_model("my.models:make").lr_epochs == 5


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The rate of each of Adam's steps."""
    found: list[float] = []
    step = Adam.step

    def record(self: Adam) -> None:
        found.extend(group["lr"] for group in self.param_groups)
        step(self)

    monkeypatch.setattr(Adam, "step", record)
    return found


@pytest.mark.parametrize("fields", [{}, {"lr_schedule": "cosine", "lr_epochs": 3}], ids=["constant", "cosine"])
def test_adam_steps_by_it_wherever_training_goes_on(
    fields: dict[str, Any], tiny_graph: Graph, tmp_path: Path, rates: list[float]
) -> None:
    config, task = CONFIG.replace(learning_rate_scale=4.0), dataclasses.replace(TASK, **fields)
    with Trainer(tiny_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        expected = LearningRate.of(task, config, trainer.batches_per_epoch)
        steps: Iterator[object] = islice(trainer.steps(0), 2)
        assert len(list(steps)) == 2
        list(trainer.steps(0, start=2))
        list(trainer.steps(1, start=1))
        epoch = trainer.batches_per_epoch
        batches = [*range(epoch), *range(epoch + 1, 2 * epoch)]
        assert rates == [expected.at(batch) for batch in batches]
        assert len(set(rates)) == len(rates)


def test_where_the_rate_is_zero_no_weight_changes(tiny_graph: Graph, tmp_path: Path) -> None:
    task = dataclasses.replace(TASK, lr_schedule="linear", lr_epochs=1, weight_decay=0.1)
    with Trainer(tiny_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer:
        list(trainer.steps(0))
        before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
        list(trainer.steps(1))
        assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
