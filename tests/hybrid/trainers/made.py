"""Trainers of one process, on so many devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.devices.processor import ProcessorDevice
from a3gnn.hybrid.schedule import TrainerSampling
from a3gnn.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.hybrid.trainers.request import OpenTrainers, Trainers
from a3gnn.pipeline.watch import WatchedStage
from a3gnn.task import Task

#: Seconds after which a test has deadlocked.
PATIENCE_S = 60.0
#: Epoch and mini-batch at which `failing_at` fails: in the middle of the second epoch.
PLACE = (1, 2)


def assigned(devices: list[Device], shares: tuple[int, ...]) -> Assignment:
    return Assignment(tuple(device.kind for device in devices), shares, 0, Threads(1, 1, 1))


def hybrid(graph: Graph, config: TrainConfig, task: Task, shares: tuple[int, ...], **others: Any) -> HybridTrainer:
    """Returns trainers on one thread each."""
    devices: list[Device] = [ProcessorDevice(f"cpu:1 ({place})", 1) for place in range(len(shares))]
    devices, assignment = others.pop("devices", devices), others.pop("assignment", assigned(devices, shares))
    sampling: TrainerSampling = "independent" if others.pop("independent", False) else "whole"
    schedule, stall_s = others.pop("prefetch", None), others.pop("stall_s", PATIENCE_S)
    asked = Trainers("cpu:1", None, sampling, stall_s, prefetch=schedule and schedule.depths)
    return HybridTrainer(graph, config, task, trainers=OpenTrainers(asked, tuple(devices), assignment), **others)


def all_have_ended() -> bool:
    """Returns whether the threads that trainers have started end soon."""
    deadline = time.monotonic() + PATIENCE_S
    while threads_of_trainers() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not threads_of_trainers()


def threads_of_trainers() -> list[str]:
    """Returns the names of threads that trainers have started and that are still there."""
    kinds = "a3gnn-trainer", "a3gnn-worker", "a3gnn-memory"
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(kinds)]


def failing_at(stage: WatchedStage, trainer: int | None, fail: Callable[[], None]) -> Callable[[HybridTrainer], None]:
    """Returns what has `fail` called within a stage of `trainer`, on the thread that works at it."""

    def change(made: HybridTrainer) -> None:
        at = made.watch.at

        @contextmanager
        def disturbed(now: WatchedStage, epoch: int, batch: int, place: int | None = None) -> Iterator[None]:
            with at(now, epoch, batch, place):
                if (now, place, (epoch, batch)) == (stage, trainer, PLACE):
                    fail()
                yield

        made.watch.at = disturbed  # type: ignore[method-assign,assignment]

    return change
