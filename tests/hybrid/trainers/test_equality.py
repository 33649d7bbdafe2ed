"""Trainers of one process come to what one trainer comes to, however mini-batches are divided."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import TrainerStalledError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.schedule import Schedule
from a3gnn.task import Task
from a3gnn.training.learner import Replica
from tests.hybrid.trainers.made import hybrid, threads_of_trainers
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
    trained,
    unweighted,
    with_seeds,
)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


def shared(
    graph: Graph,
    config: TrainConfig,
    task: Task,
    split: tuple[int, ...],
    prepare: Callable[[Replica], None],
    **others: Any,
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Returns the first trainer's weights, whose bits all have, and the losses."""
    made = hybrid(graph, config.replace(batch_size=sum(split)), task, split, **others)
    weights, losses = trained(made, made._replicas, prepare)
    for replica in made._replicas:
        assert all(torch.equal(one, weights[name]) for name, one in replica.learner.model.state_dict().items())
    assert not threads_of_trainers()
    return weights, losses


@pytest.mark.parametrize("model", MODELS)
def test_any_split_equals_one_trainer_in_double_precision(model, graph):
    task, config = task_of(model), TrainConfig(batch_size=BATCH)
    # One trainer sums GCN's features in float32 as it reads them, and shares do not: beside it stands a single share.
    expected, losses = (
        shared(graph, config, task, (BATCH,), in_double) if model == "gcn" else alone(graph, config, task, in_double)
    )
    for split in (*SPLITS, *random_splits()):
        weights, found = shared(graph, config, task, split, in_double)
        assert difference(weights, expected) <= 1e-9, split
        assert found == pytest.approx(losses, abs=1e-9)


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_a_linear_residual_is_computed_by_shares(model, graph):
    task, config = dataclasses.replace(task_of(model), residual="linear"), TrainConfig(batch_size=BATCH)
    expected, losses = alone(graph, config, task, in_double)
    weights, found = shared(graph, config, task, (700, 324), in_double)
    assert any(name.startswith("shortcuts.0") for name in weights)
    assert difference(weights, expected) <= 1e-9
    assert found == pytest.approx(losses, abs=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_an_unweighted_average_is_not_equal(model, graph):
    task, config = task_of(model), TrainConfig(batch_size=BATCH)
    expected, _ = shared(graph, config, task, (BATCH,), in_double)
    weights, _ = shared(graph, config, task, (700, 324), unweighted)
    assert difference(weights, expected) > 1e-6


def test_statistics_that_count_a_node_once_per_share_are_not_equal(graph):
    task, config = task_of("gin"), TrainConfig(batch_size=BATCH)
    expected, _ = alone(graph, config, task, in_double)
    weights, _ = shared(graph, config, task, (700, 324), counting_all)
    assert difference(weights, expected) > 1e-6


@pytest.mark.parametrize("knobs", KNOBS.values(), ids=KNOBS)
def test_knobs_are_equal(knobs, graph, tmp_path):
    stored = graph.on_disk(tmp_path)
    task, config = task_of("gin"), TrainConfig(batch_size=256, **knobs)
    expected, _ = alone(stored, config, task, in_double)
    weights, _ = shared(stored, config, task, (96, 160), in_double)
    assert difference(weights, expected) <= 1e-9


def test_the_same_seed_gives_the_same_bits_in_every_mode(graph):
    task = task_of("gin")
    modes: list[dict[str, Any]] = [{}, {}, {"parallel_mode": "mode1", "num_workers": 2}]
    first, *rest = [shared(graph, TrainConfig(**mode), task, (300, 212), as_it_is) for mode in modes]
    for weights, losses in rest:
        assert losses == first[1]
        assert all(torch.equal(one, first[0][name]) for name, one in weights.items())


@pytest.mark.parametrize("model", ["sage", pytest.param("gin", marks=pytest.mark.weekly)])
def test_the_same_seed_gives_the_same_bits_by_every_schedule(model, graph):
    task, config = task_of(model), TrainConfig(batch_size=128, cache_bytes=1 << 14, cache_policy="clock")
    weights, losses = shared(graph, config, task, (72, 56), as_it_is)
    for depths in (*product((0, 1), repeat=3), (3, 2, 1)):
        others, found = shared(graph, config, task, (72, 56), as_it_is, prefetch=Schedule(*depths))
        assert found == losses
        assert all(torch.equal(others[name], one) for name, one in weights.items()), depths


def test_parts_are_the_same_by_a_schedule(graph, tmp_path):
    stored = graph.on_disk(tmp_path)
    task, config = task_of("sage"), TrainConfig(batch_size=128, num_partitions=3, partitioner="random")
    weights, losses = shared(stored, config, task, (72, 56), as_it_is)
    others, found = shared(stored, config, task, (72, 56), as_it_is, prefetch=Schedule())
    assert found == losses
    assert all(torch.equal(others[name], one) for name, one in weights.items())


def test_more_trainers_than_seeds_keep_step(graph):
    few = dataclasses.replace(graph, train_ids=graph.train_ids[:9])
    task, config = task_of("gin"), TrainConfig(batch_size=4)  # the last mini-batch has one seed
    expected, _ = alone(few, config, task, in_double)
    weights, _ = shared(few, config, task, (1, 1, 1, 1, 0), in_double)
    assert difference(weights, expected) <= 1e-9


def test_sparse_features_are_equal(sparse_graph):
    task, config = task_of("sage"), TrainConfig(batch_size=50)
    _, losses = alone(sparse_graph, config, task, as_it_is)
    _, found = shared(sparse_graph, config, task, (20, 30), as_it_is)
    assert found == pytest.approx(losses, rel=1e-4)


def test_a_restart_begins_again_in_all_trainers(graph):
    task, config = task_of("sage"), TrainConfig(batch_size=512)
    with hybrid(graph, config, task, (300, 212)) as trainer:
        before = [step.loss for step in trainer.steps(0)]
        trainer.restart()
        assert [step.loss for step in trainer.steps(0)] == before


def test_steps_tell_of_all_trainers(graph):
    task, config = task_of("sage"), TrainConfig(batch_size=512)
    with hybrid(graph, config, task, (300, 212)) as trainer:
        first, *_, last = list(trainer.steps(0))
    assert [one.seeds for one in first.trainers] == [300, 212]
    assert sum(one.seeds for one in last.trainers) == last.seeds == 1300 - 2 * 512
    assert all(one.train_s > 0 and not one.transfer_s for one in first.trainers)
    assert trainer.times is not None
    assert trainer.times.training == tuple(one.train_s for one in last.trainers)


def test_threads_to_come_have_torchs_threads_as_before_also_where_a_trainer_keeps_its_own(graph):
    release = threading.Event()

    def threads_of_a_new_thread() -> int:
        with ThreadPoolExecutor(1) as executor:
            return executor.submit(torch.get_num_threads).result()

    with torch_threads(3), hybrid(graph, TrainConfig(batch_size=512), task_of("sage"), (512,), stall_s=1.0) as trainer:
        learner: Any = trainer._replicas[0].learner
        learner.loss = lambda batch: release.wait(30)
        try:
            with pytest.raises(TrainerStalledError):
                list(trainer.steps(0))
            assert (torch.get_num_threads(), threads_of_a_new_thread()) == (3, 3)
        finally:
            release.set()


def test_independent_shards_are_another_training_and_repeat_work(graph):
    task, config = task_of("gcn"), TrainConfig(batch_size=512)
    whole, _ = shared(graph, config, task, (300, 212), in_double)
    weights, losses = shared(graph, config, task, (300, 212), in_double, independent=True)
    assert difference(weights, whole) > 1e-6
    assert losses[-1] < losses[0]


def test_what_could_differ_is_refused(graph):
    with pytest.raises(UsageError, match="resources must be free"):
        hybrid(graph, TrainConfig(batch_size=512, resources="auto"), task_of("sage"), (300, 212))
    with pytest.raises(UsageError, match="must be a built-in one"):
        hybrid(graph, TrainConfig(batch_size=512), Task(model="tests.own_models:make"), (300, 212))
    with pytest.raises(UsageError, match="sum to batch_size 512"):
        hybrid(graph, TrainConfig(batch_size=512), task_of("sage"), (300, 213))
