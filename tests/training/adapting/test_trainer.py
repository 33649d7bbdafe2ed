"""`AdaptingTrainer`: whatever changes while it trains, the weights are those of a `Trainer`, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from a3gnn.config import ParallelMode, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.process.memory_guard import host_bytes
from a3gnn.task import Task
from a3gnn.training.adapting.memory_watch import Room
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.training.adapting.sizes import draw_sizes
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
def test_any_sequence_of_sizes_learns_the_same_bits(model, graph):
    config = TrainConfig(batch_size=BATCH, cache_bytes=CACHE, feature_tier="disk", parallel_mode="mode1")
    expected = weights(Trainer(graph, config, task_of(model)), epochs=8)
    made = AdaptingTrainer(graph, config, task_of(model))
    draw_sizes(made.division, MODELS.index(model), CACHE)
    assert difference(weights(made, epochs=8), expected) == 0.0
    assert len(made.division.changes) >= 3


@pytest.mark.parametrize("name", ["dynamic cache", "partitions", "halves", "proximity", "whole aggregation"])
def test_with_any_knob_the_bits_stay(name, graph):
    config = TrainConfig(batch_size=BATCH, **KNOBS[name])
    made = AdaptingTrainer(graph, config, task_of("sage"))
    if config.cache_bytes:
        draw_sizes(made.division, 7, config.cache_bytes)
    assert difference(weights(made), weights(Trainer(graph, config, task_of("sage")))) == 0.0
    assert len(made.division.changes) >= 2 or not config.cache_bytes


def test_state_is_gone_on_with_where_the_configuration_is_the_same(graph):
    config = TrainConfig(batch_size=BATCH, cache_bytes=CACHE, feature_tier="disk")
    with AdaptingTrainer(graph, config, task_of("sage")) as trainer:
        trainer.division._change(CACHE // 2, 1, 1, "asked")
        list(trainer.steps(0))
        state = trainer.division.state_dict()
    with AdaptingTrainer(graph, config, task_of("sage")) as again:
        again.division.load_state_dict(state)
        next(again.steps(1))
        assert again._adjustable.active_bytes == CACHE // 2
        assert 0 < again.cache_bytes <= CACHE // 2
        assert again.division.changes == trainer.division.changes
    other = config.replace(cache_bytes=CACHE - 8000)
    with AdaptingTrainer(graph, other, task_of("sage")) as asked_anew:
        asked_anew.division.load_state_dict(state)
        assert asked_anew.division.cache_bytes == other.cache_bytes


def test_a_limit_that_gets_near_shrinks_the_cache_and_room_lets_it_grow(graph):
    """Memory is really taken, and given back, while the run goes on: it would pass its limit with the cache."""
    config = TrainConfig(batch_size=BATCH, cache_bytes=CACHE, feature_tier="disk")
    limit = int(1.5 * host_bytes()) + (256 << 20)  # room for the cache to grow, however large this process is
    options = TrainerOptions(host_memory_limit=limit)
    with AdaptingTrainer(graph, config, task_of("sage"), options) as trainer:
        trainer.division.period_s = trainer.division.calm_s = 0.0
        list(trainer.steps(0))
        full = trainer._pipeline.store.cache_bytes
        assert full
        ballast = np.ones(limit - host_bytes() - int(0.03 * limit), dtype=np.uint8)
        list(trainer.steps(1))
        assert trainer._pipeline.store.cache_bytes == 0
        shrunk = trainer.division.changes[0]
        assert shrunk.now < CACHE
        assert "of the memory limit" in shrunk.reason
        del ballast
        list(trainer.steps(2))
        assert trainer._pipeline.store.cache_bytes == full
        assert trainer.division.changes[-1].reason.endswith("of the memory limit are free again")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_cache_shrinks_once_by_what_is_needed_though_the_peak_before_was_higher(workers, graph, monkeypatch):
    """What was seen since the last look is of the larger cache until a mini-batch of the smaller one was trained."""
    mode: ParallelMode = "mode1" if workers else "sequential"
    config = TrainConfig(
        batch_size=BATCH, cache_bytes=CACHE, feature_tier="disk", parallel_mode=mode, num_workers=max(1, workers)
    )
    limit, beside = 500_000, 420_000
    with AdaptingTrainer(graph, config, task_of("sage")) as trainer:
        trainer.division.period_s = 0.0
        last = 0

        def recent() -> int:
            nonlocal last
            now = beside + trainer._adjustable.active_bytes
            peak, last = max(last, now), now
            return peak

        monkeypatch.setattr(trainer.memory, "recent_bytes", recent)
        monkeypatch.setattr(trainer.division, "_rooms", lambda: [Room(limit - recent(), limit, "of the memory limit")])
        for epoch in range(3):
            list(trainer.steps(epoch))
        # 20,000 are left of 500,000, and 50,000 are to be.
        assert [change.now for change in trainer.division.changes] == [CACHE - 30_000]
        assert 0 < trainer.cache_bytes <= CACHE - 30_000
