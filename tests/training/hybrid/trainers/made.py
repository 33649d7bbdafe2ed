"""Trainers of one process, on so many devices."""

from __future__ import annotations

import threading
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.hybrid.assignment import Assignment, Threads
from a3gnn.training.hybrid.devices.device import Device
from a3gnn.training.hybrid.devices.processor import ProcessorDevice
from a3gnn.training.hybrid.trainers.hybrid_trainer import HybridTrainer

#: Seconds after which a test has deadlocked.
PATIENCE_S = 60.0


def assigned(devices: list[Device], shares: tuple[int, ...]) -> Assignment:
    return Assignment(tuple(device.kind for device in devices), shares, 0, Threads(1, 1, 1))


def hybrid(graph: Graph, config: TrainConfig, task: Task, shares: tuple[int, ...], **others: Any) -> HybridTrainer:
    """Returns trainers on one thread each."""
    devices: list[Device] = [ProcessorDevice(f"cpu:1 ({place})", 1) for place in range(len(shares))]
    given = {"devices": devices, "assignment": assigned(devices, shares), "stall_s": PATIENCE_S} | others
    return HybridTrainer(graph, config, task, **given)


def threads_of_trainers() -> list[str]:
    """Returns the names of threads that trainers have started and that are still there."""
    kinds = "a3gnn-trainer", "a3gnn-worker", "a3gnn-memory"
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(kinds)]
