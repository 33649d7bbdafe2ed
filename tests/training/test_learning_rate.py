"""The learning rate at each mini-batch: the task's, scaled, after a warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.adam import Adam
from a3gnn.training.learning_rate import LearningRate
from a3gnn.training.trainer import Trainer

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


def test_adam_steps_by_it_wherever_training_goes_on(tiny_graph: Graph, tmp_path: Path, rates: list[float]) -> None:
    config = CONFIG.replace(learning_rate_scale=4.0)
    with Trainer(tiny_graph, config, TASK, scratch=tmp_path) as trainer:
        expected = LearningRate.of(TASK, config, trainer.batches_per_epoch)
        steps: Iterator[object] = islice(trainer.steps(0), 2)
        assert len(list(steps)) == 2
        list(trainer.steps(0, start=2))
        list(trainer.steps(1, start=1))
        epoch = trainer.batches_per_epoch
        batches = [*range(epoch), *range(epoch + 1, 2 * epoch)]
        assert rates == [expected.at(batch) for batch in batches]
        assert len(set(rates)) == len(rates)
