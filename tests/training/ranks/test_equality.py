"""Shares of every mini-batch, trained beside each other, come to what one trainer comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.ranks.peers import Member
from a3gnn.sampling.share import Shares
from a3gnn.task import Task
from a3gnn.training.learner import Replica
from a3gnn.training.trainer import Trainer
from tests.training.equality import (
    BATCH,
    KNOBS,
    MODELS,
    SPLITS,
    alone,
    as_it_is,
    counting_all,
    difference,
    in_double,
    random_splits,
    task_of,
    unweighted,
    with_seeds,
)
from tests.training.ranks.threads import ThreadRanks, together


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


def shared(
    graph: Graph, config: TrainConfig, task: Task, split: tuple[int, ...], prepare: Callable[[Replica], None]
) -> Any:
    """Returns the same of shares, of which each trainer's weights must be the same bits."""

    def work(ranks: ThreadRanks) -> Any:
        return alone(graph, config, task, prepare, member=Member(Shares(ranks.rank, split), ranks))

    first, *rest = together(len(split), work)
    for weights, losses in rest:
        assert losses == first[1]
        assert all(torch.equal(one, first[0][name]) for name, one in weights.items())
    return first


def one_share(graph: Graph, config: TrainConfig, task: Task, prepare: Callable[[Replica], None]) -> Any:
    return shared(graph, config, task, (1,), prepare)


@pytest.mark.parametrize("model", MODELS)
def test_any_split_equals_one_trainer_in_double_precision(model, graph):
    task, config = task_of(model), TrainConfig(batch_size=BATCH)
    # One process sums GCN's features in float32 as it reads them, and shares do not: beside it stands a single share.
    reference = one_share if model == "gcn" else alone
    expected, losses = reference(graph, config, task, in_double)
    fresh = Trainer(graph, config, task).model.state_dict()
    assert difference(expected, fresh) > 0.01
    for split in (*SPLITS, *random_splits()):
        weights, found = shared(graph, config, task, split, in_double)
        assert difference(weights, expected) <= 1e-9, split
        assert found == pytest.approx(losses, abs=1e-9)


@pytest.mark.parametrize("others", [{"norm": "batch"}, {"norm": "layer", "residual": True}, {"fanouts": (4, 3, 2)}])
@pytest.mark.parametrize("model", ["sage", "gin", "gatv2", "transformer"])
def test_layers_between_and_other_attention_are_equal_too(model, others, graph):
    task, config = task_of(model, **others), TrainConfig(batch_size=BATCH)
    expected, _ = alone(graph, config, task, in_double)
    weights, _ = shared(graph, config, task, (700, 324), in_double)
    assert difference(weights, expected) <= 1e-9


@pytest.mark.parametrize("model", MODELS)
def test_an_unweighted_average_is_not_equal(model, graph):
    task, config = task_of(model), TrainConfig(batch_size=BATCH)
    expected, _ = one_share(graph, config, task, in_double)
    weights, _ = shared(graph, config, task, (700, 324), unweighted)
    assert difference(weights, expected) > 1e-6


def test_statistics_that_count_a_node_once_per_share_are_not_equal(graph):
    task, config = task_of("gin"), TrainConfig(batch_size=BATCH)
    expected, _ = one_share(graph, config, task, in_double)
    weights, _ = shared(graph, config, task, (700, 324), counting_all)
    assert difference(weights, expected) > 1e-6


@pytest.mark.parametrize("model", [*MODELS, "gatv2", "transformer"])
def test_single_precision_is_equal_to_rounding(model, graph):
    task, config = task_of(model), TrainConfig(batch_size=BATCH)
    expected, losses = alone(graph, config, task, as_it_is)
    weights, found = shared(graph, config, task, (700, 324), as_it_is)
    assert found == pytest.approx(losses, rel=1e-4)
    # Adam moves weights whose gradient is rounding alone by its step size, in either direction.
    assert difference(weights, expected) < 0.02
    assert sum(float((weights[name] - expected[name]).double().abs().mean()) for name in weights) / len(weights) < 1e-3


@pytest.mark.parametrize("knobs", KNOBS.values(), ids=KNOBS)
def test_knobs_are_equal(knobs, graph, tmp_path):
    stored = graph.on_disk(tmp_path)
    task, config = task_of("gin"), TrainConfig(batch_size=256, **knobs)
    expected, _ = alone(stored, config, task, in_double)
    weights, _ = shared(stored, config, task, (3, 5), in_double)
    assert difference(weights, expected) <= 1e-9


def test_a_whole_aggregation_of_gcn_is_equal(graph, tmp_path):
    stored = graph.on_disk(tmp_path)
    task, config = task_of("gcn"), TrainConfig(batch_size=256, input_aggregation="full")
    expected, _ = alone(stored, config, task, in_double)
    weights, _ = shared(stored, config, task, (3, 5), in_double)
    assert difference(weights, expected) <= 1e-9


@pytest.mark.parametrize("model", MODELS)
def test_bfloat16_is_equal_to_its_rounding(model, graph):
    task, config = task_of(model), TrainConfig(batch_size=BATCH, compute_dtype="bfloat16")
    _, losses = alone(graph, config, task, as_it_is)
    _, found = shared(graph, config, task, (700, 324), as_it_is)
    assert found == pytest.approx(losses, rel=0.03)


@pytest.mark.parametrize("weights", ["none", "balanced"])
def test_class_weights_are_equal(weights, graph):
    task, config = task_of("sage", class_weights=weights), TrainConfig(batch_size=BATCH)

    def double(replica: Replica) -> None:
        in_double(replica)
        learner: Any = replica.learner
        if weights == "balanced":
            learner._loss = torch.nn.CrossEntropyLoss(learner._loss.keywords["weight"].double())

    expected, _ = alone(graph, config, task, double)
    found, _ = shared(graph, config, task, (700, 324), double)
    assert difference(found, expected) <= 1e-9


def test_sparse_features_are_equal(sparse_graph):
    task, config = task_of("sage"), TrainConfig(batch_size=50)
    _, losses = alone(sparse_graph, config, task, as_it_is)
    _, found = shared(sparse_graph, config, task, (1, 2), as_it_is)
    assert found == pytest.approx(losses, rel=1e-4)


def test_more_trainers_than_seeds_keep_step(graph):
    few = dataclasses.replace(graph, train_ids=graph.train_ids[:9])
    task, config = task_of("gin"), TrainConfig(batch_size=4)  # the last mini-batch has one seed
    expected, _ = alone(few, config, task, in_double)
    weights, _ = shared(few, config, task, (1, 1, 1, 1, 1, 1), in_double)
    assert difference(weights, expected) <= 1e-9


def test_what_could_differ_is_refused(graph, tmp_path):
    member = Member(Shares.equal(0, 2), ThreadRanks(None, 0))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="resources must be free"):
        Trainer(graph, TrainConfig(resources="auto"), task_of("sage"), member=member)
    with pytest.raises(UsageError, match="sampling_device must be cpu"):
        Trainer(graph, TrainConfig(sampling_device="cuda"), task_of("sage"), member=member)
    own = Task(model="tests.own_models:make")
    with pytest.raises(UsageError, match="must be a built-in one"):
        Trainer(graph, TrainConfig(), own, member=member)
