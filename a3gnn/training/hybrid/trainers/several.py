"""`open_several`: the trainers of a request, by name or by its configuration, on their devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from a3gnn.machine.probe import probe_hardware
from a3gnn.training.checkpoint import saved_shares
from a3gnn.training.hybrid.trainers.choices import TrainerSampling
from a3gnn.training.hybrid.trainers.configured import configured, with_one_trainer
from a3gnn.training.hybrid.trainers.request import OpenTrainers, Trainers
from a3gnn.training.request import TrainRequest


class Said(NamedTuple):
    """What is said of trainers whose names the configuration gives; see `Trainers`.

    Attributes:
        shares: Seeds of each.
        sampling: Of mini-batches.
        stall_s: Seconds that a stage may take.
        adapt: Whether shares and threads change.
        prefetch: Depths by stage.
    """

    shares: Sequence[int] | None
    sampling: TrainerSampling
    stall_s: float
    adapt: bool
    prefetch: Sequence[int] | None


def open_several(
    request: TrainRequest,
    asked: Trainers | None,
    said: Said,
    processes: int,
    run: str | Path | None,
    notify: Callable[[str], None],
) -> tuple[TrainRequest, OpenTrainers | None]:
    """Returns the request and its trainers, None for one; those named take the place of its configuration's.

    Args:
        request: Graph, configuration and task.
        asked: Trainers that were named.
        said: Of those that were not.
        processes: Of this training run.
        run: Folder of the run that goes on; None for a new one.
        notify: Takes lines for people.

    Raises:
        UsageError: As of `Trainers.of` and `Trainers.on`.
        DeviceError: A device is not there.
    """
    if asked is not None:
        request = dataclasses.replace(request, config=with_one_trainer(request.config))
    else:
        asked = configured(request.config, *said)
    if asked is None:
        return request, None
    several = asked.on(
        request.graph,
        request.config,
        request.task,
        processes,
        kept=None if run is None else saved_shares(run),
        hardware=lambda: probe_hardware(notify=notify),
    )
    for line in several.lines:
        notify(line)
    return request, several
