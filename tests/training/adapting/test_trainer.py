"""`AdaptingTrainer`: whatever changes while it trains, the weights are those of a `Trainer`, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.preparation import Preparation
from a3gnn.task import Task
from a3gnn.training.adapting import memory_watch
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.memory import host_bytes
from a3gnn.training.trainer import Trainer
from tests.training.adapting.controllers import RandomPreparations, Stays
from tests.training.equality import KNOBS, MODELS, difference, with_seeds

BATCH = 64
CACHE = 60_000


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


def task_of(model: str) -> Task:
    return Task(model=model, hidden_channels=16, fanouts=(6, 4), heads=2)


def weights(made: Trainer, epochs: int = 4) -> dict[str, torch.Tensor]:
    with made as trainer:
        for epoch in range(epochs):
            list(trainer.steps(epoch))
        return {name: value.clone() for name, value in trainer.model.state_dict().items()}


@pytest.mark.parametrize("model", MODELS)
def test_any_sequence_of_preparations_learns_the_same_bits(model, graph):
    config = TrainConfig(batch_size=BATCH, cache_bytes=CACHE, feature_tier="disk", parallel_mode="mode1")
    expected = weights(Trainer(graph, config, task_of(model)))
    controller = RandomPreparations(MODELS.index(model), CACHE)
    made = AdaptingTrainer(graph, config, task_of(model), controller=controller)
    assert difference(weights(made), expected) == 0.0
    assert len(made.division.changes) >= 3


@pytest.mark.parametrize("name", ["dynamic cache", "partitions", "halves", "proximity", "whole aggregation"])
def test_with_any_knob_the_bits_stay(name, graph):
    config = TrainConfig(batch_size=BATCH, **KNOBS[name])
    controller = RandomPreparations(7, config.cache_bytes)
    made = AdaptingTrainer(graph, config, task_of("sage"), controller=controller)
    assert difference(weights(made), weights(Trainer(graph, config, task_of("sage")))) == 0.0
    assert len(made.division.changes) >= 2


def test_a_controller_is_told_of_what_was_prepared_as_it_said(graph):
    """With its seconds: mini-batches of the preparation before, and the smaller last one of an epoch, don't count."""
    controller, seen = RandomPreparations(3), {}
    config = TrainConfig(batch_size=BATCH)
    with AdaptingTrainer(graph, config, task_of("sage"), controller=controller) as trainer:
        for epoch in range(4):
            for step in trainer.steps(epoch):
                if step.seeds == BATCH:
                    seen.setdefault(trainer._adjustable.active, []).append(step.seconds.train)
    assert len(controller.told) >= 4
    for preparation, times in controller.told:
        assert min(seen[preparation]) <= times.training[0] <= max(seen[preparation])
        assert times.iteration is not None
        assert times.iteration >= times.training[0]


def test_the_lines_say_what_changed_and_what_it_gained(graph):
    controller = Stays(Preparation("mode2", 1, 2, 0))
    with AdaptingTrainer(graph, TrainConfig(batch_size=BATCH), task_of("sage"), controller=controller) as trainer:
        for epoch in range(3):
            list(trainer.steps(epoch))
    (change,) = trainer.division.changes
    first, second = trainer.choices
    assert first.startswith(f"adapt: epoch 1, mini-batch {change.batches}: mode sequential -> mode2; workers 0 -> 1; ")
    assert "depth 0 -> 2: " in first
    assert f"adapt: the change at epoch 1, mini-batch {change.batches}: " in second
    assert trainer.division.told["preparation"] == {"mode": "mode2", "workers": 1, "depth": 2, "cache_bytes": 0}


def test_state_is_gone_on_with_where_the_configuration_is_the_same(graph):
    config, wanted = TrainConfig(batch_size=BATCH), Preparation("mode1", 2, 3, 0)
    with AdaptingTrainer(graph, config, task_of("sage"), controller=Stays(wanted)) as trainer:
        list(trainer.steps(0))
        state = trainer.division.state_dict()
    assert trainer.division.current == wanted
    with AdaptingTrainer(graph, config, task_of("sage")) as again:
        again.division.load_state_dict(state)
        next(again.steps(1))
        assert again._adjustable.active == wanted
        assert [change.now for change in again.division.changes] == [wanted.to_dict()]
    other = config.replace(parallel_mode="mode2")
    with AdaptingTrainer(graph, other, task_of("sage")) as asked_anew:
        asked_anew.division.load_state_dict(state)
        assert asked_anew.division.current == Preparation.of(other)


def test_a_limit_that_gets_near_shrinks_the_cache_and_room_lets_it_grow(graph, monkeypatch):
    """Memory is really taken, and given back, while the run goes on: it would pass its limit with the cache."""
    monkeypatch.setattr(memory_watch, "_PERIOD_S", 0.0)
    monkeypatch.setattr(memory_watch, "_CALM_S", 0.0)
    config = TrainConfig(batch_size=BATCH, cache_bytes=CACHE, feature_tier="disk")
    limit = host_bytes() + (256 << 20)
    stays = Stays(Preparation.of(config))
    given: dict[str, Any] = {"controller": stays, "host_memory_limit": limit}
    with AdaptingTrainer(graph, config, task_of("sage"), **given) as trainer:
        rooms = trainer._watch._rooms
        trainer._watch._rooms = lambda: rooms()[:1]  # the limit's: what else this machine does decides nothing
        list(trainer.steps(0))
        full = trainer._pipeline.store.cache_bytes
        assert full
        ballast = np.ones(limit - host_bytes() - int(0.03 * limit), dtype=np.uint8)
        list(trainer.steps(1))
        assert trainer._pipeline.store.cache_bytes == 0
        shrunk = trainer.division.changes[0]
        assert shrunk.now["cache_bytes"] < CACHE
        assert "of the memory limit" in shrunk.reason
        del ballast
        list(trainer.steps(2))
        assert trainer._pipeline.store.cache_bytes == full
        assert trainer.division.changes[-1].reason.endswith("of the memory limit again")
