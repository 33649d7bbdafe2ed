"""Controllers that change the shares and threads of real trainers during training, and their schedules."""

from __future__ import annotations

from collections.abc import Sequence

from a3gnn.config import TrainConfig
from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.balanced import Balanced
from a3gnn.hybrid.control.controller import Controller
from a3gnn.hybrid.control.fitted import FittedScaling
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.schedule import Schedule
from a3gnn.threads import pool

_BY_MODE = {
    "sequential": Schedule(sampled=0, loaded=0, transferred=0),
    "mode1": Schedule(sampled=0, loaded=0, transferred=1),
    "mode2": Schedule(sampled=1, loaded=0, transferred=0),
}


def default_controller(config: TrainConfig, devices: Sequence[Device], prefetch: Schedule | None = None) -> Controller:
    """Returns `Balanced` among trainers of one kind, with `FittedScaling` between kinds.

    In simulation `FittedScaling` comes nearest to the best division between kinds (docs/research/hybrid.md).
    """
    schedule = schedule_of(config, prefetch)
    return Balanced(
        lambda bounds, hysteresis: FittedScaling(bounds, schedule, hysteresis),
        schedule,
        [device.threads for device in devices],
        lambda: [device.most_seeds() for device in devices],
    )


def schedule_of(config: TrainConfig, prefetch: Schedule | None) -> Schedule:
    """Returns the stages that overlap: `prefetch`, or by default those of `config.parallel_mode`."""
    return _BY_MODE[config.parallel_mode] if prefetch is None else prefetch


def stage_threads(devices: Sequence[Device], prefetch: Schedule) -> int:
    """Returns the threads of each stage that runs ahead: an equal part of the cores left by trainers, at least one."""
    ahead = max(1, len(prefetch.groups) - 1)
    return max(1, (pool.usable_cores() - sum(device.threads for device in devices)) // ahead)


def give_threads(devices: Sequence[Device], assignment: Assignment) -> None:
    """Sets the threads of each device to those of `assignment`, from the next mini-batch on."""
    if assignment.trainer_threads:
        for device, threads in zip(devices, assignment.trainer_threads, strict=True):
            device.threads = threads


def filling(config: TrainConfig, prefetch: Schedule | None) -> int:
    """Returns the number of mini-batches that fill the pipeline: those that run ahead, and the first one."""
    if prefetch is not None:
        return sum(prefetch.depths) + 1
    return 1 if config.parallel_mode == "sequential" else config.num_workers + 1
