"""Ranks that train columns of the input layer's weights each: what is evaluated, saved and gone on from is whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, PeerLostError
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.built_in import P3
from a3gnn.hitgnn.algorithms.exchange import ExchangingTrainer
from a3gnn.hitgnn.algorithms.iterations import Iterations
from a3gnn.hitgnn.algorithms.p3 import PartialSums
from a3gnn.hitgnn.algorithms.rank_store import open_rank_store
from a3gnn.ranks.peers import Member
from a3gnn.sampling.share import Shares
from a3gnn.task import Task
from a3gnn.training.checkpoint import restore_checkpoint, save_checkpoint
from a3gnn.training.curve import first_point
from a3gnn.training.progress import Progress
from a3gnn.training.trainer import Trainer, TrainerOptions
from tests.training.ranks.threads import BUILDING, Board, ThreadRanks, together

TASK = Task(model="gin", hidden_channels=8, fanouts=(3, 2), norm="batch")
CONFIG = TrainConfig(batch_size=15)
FIRST = "convs.0.nn.lins.0.weight"


def trainer_of(
    graph: Graph, ranks: ThreadRanks, scratch: Path | None = None, should_stop: Callable[[], bool] = lambda: False
) -> ExchangingTrainer:
    parts = P3.parts(graph, ranks.size, 0)
    stored = P3.stored(graph, parts, ranks.rank, ranks.size)
    features = open_rank_store(graph, CONFIG, stored)
    with BUILDING:
        return ExchangingTrainer(
            graph,
            CONFIG,
            TASK,
            TrainerOptions(None if scratch is None else scratch / str(ranks.rank), should_stop=should_stop),
            iterations=Iterations(graph.train_ids, parts, ranks.size, CONFIG.batch_size, 0),
            features=features,
            member=Member(Shares.equal(ranks.rank, ranks.size), ranks, ranks),
            exchange=partial(PartialSums, ranks=ranks, stored=stored, features=features),
        )


def state_of(trainer: Trainer) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def on_two(graph: Graph, work: Callable[[ThreadRanks, ExchangingTrainer], Any], *given: Any, **others: Any) -> Any:
    def with_trainer(ranks: ThreadRanks) -> Any:
        with trainer_of(graph, ranks, *given, **others) as trainer:
            return work(ranks, trainer)

    return together(2, with_trainer)


def test_ranks_evaluate_the_whole_model(tiny_graph, tmp_path):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        before = state_of(trainer)
        list(trainer.steps(0))
        assert equal(before, state_of(trainer))  # it is as it was when it was last gathered
        quality = trainer.validate()
        own = trainer._exchange.own_weights[0]
        return quality, state_of(trainer), tuple(own.shape), trainer.validation_cost, trainer.test()

    (quality, state, shape, cost, test), other = on_two(tiny_graph, work, tmp_path)
    assert other[0] == quality
    assert equal(state, other[1])
    assert (shape, tuple(state[FIRST].shape)) == ((8, 8), (8, 16))
    with Trainer(tiny_graph, CONFIG, TASK) as alone:
        assert not equal(state, state_of(alone))
        assert alone.validation_cost == cost
        alone.model.load_state_dict(state)
        assert (alone.validate(), alone.test()) == pytest.approx((quality, test), abs=1e-6)


def test_a_rank_that_wants_to_save_has_the_whole_model_after_the_next_iteration(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        found = []
        for _ in trainer.steps(0):
            ready = trainer.ready_to_save() if not ranks.rank and len(found) < 2 else trainer._is_whole
            found.append((ready, equal(state_of(trainer), trainer._exchange.split.whole_state())))
        return found

    assert trainer_of(tiny_graph, ThreadRanks(Board(1), 0)).ready_to_save()
    for found in on_two(tiny_graph, work):
        assert found[:3] == [(False, False), (True, True), (False, False)]
        assert not any(ready for ready, _ in found[2:])


def test_a_checkpoint_within_an_epoch_is_gone_on_from_bit_identically(tiny_graph, tmp_path):
    path, known = tmp_path / "checkpoint.pt", {"a run": 1}

    def whole(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        for number, _ in enumerate(trainer.steps(0)):
            if not ranks.rank and trainer.ready_to_save() and number == 1:
                save_checkpoint(path, trainer, Progress(), known)
        trainer._gather()
        return state_of(trainer), trainer.optimizer.state_dict()

    def resumed(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        restore_checkpoint(path, trainer, known)
        list(trainer.steps(0, 2))
        trainer._gather()
        return state_of(trainer), trainer.optimizer.state_dict()

    (expected, moments), _ = on_two(tiny_graph, whole)
    saved = torch.load(path, weights_only=True)
    assert saved["model"][FIRST].shape == (8, 16)
    assert not equal(saved["model"], expected)
    for state, found in on_two(tiny_graph, resumed):
        assert equal(state, expected)
        assert found["state"].keys() == moments["state"].keys()
        assert all(equal(one, moments["state"][number]) for number, one in found["state"].items())
        assert found["state"][0]["exp_avg"].shape == (8, 16)


def test_a_run_begins_anew(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        before = state_of(trainer)
        losses = [step.loss for step in trainer.steps(0)]
        with BUILDING:
            trainer.restart()
        assert equal(state_of(trainer), before)
        assert not trainer.optimizer.state_dict()["state"]
        return losses == [step.loss for step in trainer.steps(0)]

    assert on_two(tiny_graph, work) == [True, True]


def test_a_stop_that_all_agree_on_leaves_the_whole_model(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        done = []
        with pytest.raises(KeyboardInterrupt):
            done.extend(trainer.steps(0))
        assert trainer.ready_to_save()
        return equal(state_of(trainer), trainer._exchange.split.whole_state())

    assert on_two(tiny_graph, work, should_stop=lambda: True) == [True, True]


def test_a_rank_that_is_lost_takes_its_columns_along(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        steps = trainer.steps(0)
        next(steps)

        def lost(*_: Any) -> Any:
            raise PeerLostError("gone")

        ranks.swap = lost  # type: ignore[method-assign]
        with pytest.raises(PeerLostError, match="gone"):
            next(steps)
        return trainer.ready_to_save()

    assert on_two(tiny_graph, work) == [False, False]


def test_a_rank_that_is_lost_before_any_weight_changed_leaves_the_whole_model(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        next(trainer.steps(0))
        trainer.validate()
        before = state_of(trainer)

        def lost(*_: Any) -> Any:
            raise PeerLostError("gone")

        ranks.sum = lost  # type: ignore[method-assign]
        with pytest.raises(PeerLostError, match="gone"):
            next(trainer.steps(0, 1))
        return trainer.ready_to_save(), equal(before, state_of(trainer))

    assert on_two(tiny_graph, work) == [(True, True)] * 2


def test_a_loss_that_is_not_finite_tells_the_iteration(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        steps, loss = trainer.steps(0), trainer._learner.loss
        next(steps)
        trainer._learner.loss = lambda batch: loss(batch) * torch.nan  # type: ignore[method-assign]
        with pytest.raises(A3GNNError, match="got nan at mini-batch 1 of epoch 1"):
            next(steps)

    on_two(tiny_graph, work)


def test_gradients_of_own_weights_are_not_sent(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        (step, *_) = trainer.steps(0)
        weights = sum(weight.nbytes for weight in trainer.model.parameters())
        return [one.gradient_bytes for one in step.traffic], weights

    for sent, weights in on_two(tiny_graph, work):
        assert sent == [2 * (weights - 4 * 8 * 16)] * 2


def test_all_ranks_find_a_curves_points_by_the_same_mini_batches(tiny_graph):
    def work(ranks: ThreadRanks, trainer: ExchangingTrainer) -> Any:
        return [one.n_id.tolist() for one in trainer.first_samples(3)], first_point(trainer)

    one, other = on_two(tiny_graph, work)
    assert one == other
    assert len(one[0]) == 3
