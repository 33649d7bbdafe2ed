"""`--adapt`: shares and threads that change while training runs, and what is learned, which does not."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.controller import Controller
from a3gnn.hybrid.devices.processor import ProcessorDevice
from a3gnn.hybrid.stage_times import StageTimes
from a3gnn.hybrid.trainers.adapting import default_controller
from a3gnn.task import Task
from a3gnn.threads import pool
from a3gnn.training.learner import Replica
from tests.hybrid.trainers.controllers import Random
from tests.hybrid.trainers.made import hybrid, threads_of_trainers
from tests.training.equality import MODELS, difference, in_double, task_of, trained, unweighted, with_seeds

#: Of 1,300 seeds: ten mini-batches and a smaller one.
BATCH = 128


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    return with_seeds(small_graph)


def weights(
    graph: Graph, config: TrainConfig, task: Task, prepare: Callable[[Replica], None], controller: Controller | None
) -> dict[str, torch.Tensor]:
    made = hybrid(graph, config, task, (100, 0, 28), controller=controller)
    found, _ = trained(made, made._replicas, prepare)
    assert not threads_of_trainers()
    return found


#: Each model in one mode; the other pairs are weekly.
PAIRS = [
    pytest.param(model, mode, marks=[] if at % 2 == other else pytest.mark.weekly)
    for at, model in enumerate(MODELS)
    for other, mode in enumerate(("sequential", "mode1"))
]


@pytest.mark.parametrize(("model", "mode"), PAIRS)
def test_any_sequence_of_divisions_learns_what_one_division_does(model, mode, graph):
    config = TrainConfig(batch_size=BATCH, parallel_mode=mode, num_workers=2)
    expected = weights(graph, config, task_of(model), in_double, None)
    controller = Random(MODELS.index(model))
    found = weights(graph, config, task_of(model), in_double, controller)
    assert len(controller.told) >= 3
    assert len({assignment.shares for assignment, _ in controller.told}) == len(controller.told)
    assert difference(found, expected) <= 1e-9


def test_a_sequence_of_divisions_is_not_equal_where_shares_are_not_weighted(graph):
    config = TrainConfig(batch_size=BATCH)
    expected = weights(graph, config, task_of("sage"), in_double, None)
    assert difference(weights(graph, config, task_of("sage"), unweighted, Random(0)), expected) > 1e-6


@pytest.mark.parametrize("mode", ["sequential", "mode1", "mode2"])
def test_a_controller_is_told_of_mini_batches_that_were_divided_as_it_said(mode, graph):
    """Those that workers had read before a change, and the smaller last one of an epoch, do not count."""
    controller, config = Random(7), TrainConfig(batch_size=BATCH, parallel_mode=mode, num_workers=2)
    observed = []
    with hybrid(graph, config, task_of("sage"), (64, 64), controller=controller) as trainer:
        assert trainer.division is not None
        managed = trainer.division._managed
        for epoch in range(3):
            observed += [(tuple(one.seeds for one in step.trainers), trainer.times) for step in trainer.steps(epoch)]
        assert trainer.division._managed is managed
    for assignment, mean in controller.told:
        assert mean.iteration is not None
        own = {times.iteration for shares, times in observed if shares == assignment.shares}
        assert min(own) <= mean.iteration <= max(own)


def on_three_threads(seeds: tuple[int, int]) -> tuple[list[ProcessorDevice], Assignment]:
    devices = [ProcessorDevice("cpu:2", 2), ProcessorDevice("cpu:1", 1)]
    kinds = tuple(device.kind for device in devices)
    return devices, Assignment(kinds, seeds, 0, Threads(1, 1, 3), trainer_threads=(2, 1))


def test_threads_change_between_mini_batches(graph):
    """Each trainer's thread computes on as many as the division says, from the next mini-batch on."""
    devices, start = on_three_threads((64, 64))
    seen: list[tuple[int, int]] = []

    class Fewer:
        def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
            return dataclasses.replace(start, trainer_threads=(1, 1), threads=Threads(1, 1, 2))

    config = TrainConfig(batch_size=BATCH)
    given: dict[str, Any] = {"devices": devices, "assignment": start, "controller": Fewer()}
    with hybrid(graph, config, task_of("sage"), (64, 64), **given) as trainer:
        propagate = trainer._replicas[0].propagate

        def watched(batch: Any) -> Any:
            seen.append((torch.get_num_threads(), pool.size()))
            return propagate(batch)

        trainer._replicas[0].propagate = watched  # type: ignore[method-assign]
        for epoch in range(2):
            list(trainer.steps(epoch))
    assert seen[0] == (2, 2)
    assert seen[-1] == (1, 1)
    assert seen == sorted(seen, reverse=True)


def test_swapping_what_two_trainers_took_changes_the_action(graph):
    """By what trainers really measured: whichever of them is slower gives seeds."""
    config = TrainConfig(batch_size=BATCH)
    devices, start = on_three_threads((96, 32))
    with hybrid(graph, config, task_of("sage"), start.shares, devices=devices, assignment=start) as trainer:
        measured = [trainer.times for _ in trainer.steps(0)]
    times = StageTimes.mean([one for one in measured[1:-1] if one is not None])
    least = 3 * min(times.training)
    slow = dataclasses.replace(times, training=(max(times.training[0], least), min(times.training)))
    swapped = dataclasses.replace(slow, training=slow.training[::-1])
    assert slow.iteration is not None

    def action(given: StageTimes) -> tuple[int, ...]:
        controller, current = default_controller(config, devices), start
        for _ in range(4):
            current = controller.adjust(start, given)
        return current.shares

    assert action(slow)[0] < start.shares[0] < action(swapped)[0]


def test_by_default_a_slow_trainer_gives_seeds(graph, monkeypatch):
    """Trainer 0 sleeps as long as its share is large; the controller sees seconds alone, those of no other work."""
    config = TrainConfig(batch_size=BATCH)
    devices = [ProcessorDevice("cpu:1", 1), ProcessorDevice("cpu:1", 1)]

    def takes(device: ProcessorDevice, seconds: float) -> None:
        launch, seeds = device.launch, [0]

        def slowly(kernel: Any, batch: Any) -> Any:
            seeds[0] = batch.num_seeds
            time.sleep(seconds * batch.num_seeds)
            return launch(kernel, batch)

        monkeypatch.setattr(device, "launch", slowly)
        monkeypatch.setattr(device, "execution_seconds", lambda: seconds * seeds[0])

    takes(devices[0], 5e-4)
    takes(devices[1], 5e-5)
    kinds = tuple(device.kind for device in devices)
    start = Assignment(kinds, (64, 64), 0, Threads(1, 1, 2), trainer_threads=(1, 1))
    given: dict[str, Any] = {"devices": devices, "assignment": start, "controller": default_controller(config, devices)}
    with hybrid(graph, config, task_of("sage"), (64, 64), **given) as trainer:
        for epoch in range(4):
            list(trainer.steps(epoch))
        assert trainer.division is not None
        assert trainer.assignment.shares[0] < 60
        assert trainer.division.changes[0].shares[0] < 60
        assert "64 seeds in trainer 0 (cpu:1)" in trainer.division.changes[0].reason


def test_independent_shares_and_a_controller_are_refused_from_python_too(graph):
    with pytest.raises(UsageError, match="must be whole with a controller"):
        hybrid(graph, TrainConfig(batch_size=BATCH), task_of("sage"), (64, 64), independent=True, controller=Random(0))
