"""`AdaptingTrainer`: whatever changes while it trains, the weights are those of a `Trainer`, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from a3gnn.config import ParallelMode, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.preparation import Preparation
from a3gnn.process.memory_guard import host_bytes
from a3gnn.task import Task
from a3gnn.training.adapting import preparing as memory_watch
from a3gnn.training.adapting.preparing import Room
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.trainer import Trainer, TrainerOptions
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
    expected = weights(Trainer(graph, config, task_of(model)), epochs=8)
    controller = RandomPreparations(MODELS.index(model), CACHE)
    made = AdaptingTrainer(graph, config, task_of(model), controller=controller)
    assert difference(weights(made, epochs=8), expected) == 0.0
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
    limit = int(1.5 * host_bytes()) + (256 << 20)  # room for the cache to grow, however large this process is
    stays = Stays(Preparation.of(config))
    options = TrainerOptions(host_memory_limit=limit)
    with AdaptingTrainer(graph, config, task_of("sage"), options, controller=stays) as trainer:
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
        assert trainer.division.changes[-1].reason.endswith("of the memory limit are free again")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_cache_shrinks_once_by_what_is_needed_though_the_peak_before_was_higher(workers, graph, monkeypatch):
    """What was seen since the last look is of the larger cache until a mini-batch of the smaller one was trained."""
    monkeypatch.setattr(memory_watch, "_PERIOD_S", 0.0)
    mode: ParallelMode = "mode1" if workers else "sequential"
    config = TrainConfig(
        batch_size=BATCH, cache_bytes=CACHE, feature_tier="disk", parallel_mode=mode, num_workers=max(1, workers)
    )
    limit, beside = 500_000, 420_000
    with AdaptingTrainer(graph, config, task_of("sage"), controller=Stays(Preparation.of(config))) as trainer:
        last = 0

        def recent() -> int:
            nonlocal last
            now = beside + trainer._adjustable.active.cache_bytes
            peak, last = max(last, now), now
            return peak

        monkeypatch.setattr(trainer.memory, "recent_bytes", recent)
        monkeypatch.setattr(trainer._watch, "_rooms", lambda: [Room(limit - recent(), limit, "of the memory limit")])
        for epoch in range(3):
            list(trainer.steps(epoch))
        # 20,000 are left of 500,000, and 50,000 are to be.
        assert [change.now["cache_bytes"] for change in trainer.division.changes] == [CACHE - 30_000]
        assert 0 < trainer.cache_bytes <= CACHE - 30_000


def test_what_a_controller_asks_for_and_there_is_no_memory_for_is_not_done_and_said_once(graph, monkeypatch):
    monkeypatch.setattr(memory_watch, "_PERIOD_S", 0.0)
    config, wanted = TrainConfig(batch_size=BATCH), Preparation("mode1", 2, 3, 0)
    with AdaptingTrainer(graph, config, task_of("sage"), controller=Stays(wanted)) as trainer:
        monkeypatch.setattr(trainer._watch, "_rooms", lambda: [Room(60, 1000, "of the memory limit")])
        for epoch in range(4):
            list(trainer.steps(epoch))
        assert trainer.division.current == Preparation.of(config)
        assert not trainer.division.changes
        (line,) = trainer.choices
        assert line.startswith("adapt: mode sequential -> mode1; workers 0 -> 2; depth 0 -> 3 was refused: it needs ")
        assert line.endswith("more, but only 60 B of the memory limit are free")
