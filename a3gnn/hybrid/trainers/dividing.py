"""`dividing_of`: how mini-batches come to trainers: by which shares, to which devices, how far ahead."""

from __future__ import annotations

from collections.abc import Sequence

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.schedule import Schedule
from a3gnn.pipeline.divided import Dividing
from a3gnn.pipeline.watch import Watch
from a3gnn.threads import pool
from a3gnn.units import count


def dividing_of(
    devices: Sequence[Device],
    assignment: Assignment,
    config: TrainConfig,
    watch: Watch,
    prefetch: Schedule | None,
    *,
    independent: bool,
) -> Dividing:
    """Returns how the mini-batches of `assignment` come to `devices`.

    Args:
        devices: Of each trainer.
        assignment: The seeds of each.
        config: How is trained.
        watch: Knows who works at what.
        prefetch: How far each stage is ahead of the next; None where `config`'s mode and workers say it.
        independent: Whether each share is sampled for itself.

    Raises:
        UsageError: Shares are not one per trainer, or not of `batch_size` seeds together.
    """
    if assignment.batch_size != config.batch_size or len(assignment.shares) != len(devices):
        raise UsageError(
            f"shares must be one per trainer and come to batch_size {config.batch_size}, got {assignment.shares} for "
            f"{count(len(devices), 'trainer')}"
        )
    return Dividing(
        assignment.shares,
        tuple(device.send for device in devices),
        tuple(device.page_locked for device in devices),
        watch,
        independent=independent,
        depths=None if prefetch is None else prefetch.depths,
        threads=1 if prefetch is None else stage_threads(devices, prefetch),
    )


def stage_threads(devices: Sequence[Device], prefetch: Schedule) -> int:
    """Returns the threads of each stage that is ahead: an equal part of the cores that trainers leave, one at least."""
    ahead = max(1, len(prefetch.groups) - 1)
    return max(1, (pool.usable_cores() - sum(device.threads for device in devices)) // ahead)
