"""`open_several`: the trainers of a request, by name or by its configuration, on their devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from a3gnn.errors import UsageError
from a3gnn.machine.probe import probe_hardware
from a3gnn.option_names import option
from a3gnn.parts.graph import PartedGraph
from a3gnn.training.checkpoint import saved_shares
from a3gnn.training.hybrid.trainers.choices import TrainerSampling
from a3gnn.training.hybrid.trainers.configured import configured, with_one_trainer
from a3gnn.training.hybrid.trainers.request import OpenTrainers, Trainers
from a3gnn.training.ranks.processes import Alone
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
    us: Alone,
    run: str | Path | None,
    notify: Callable[[str], None],
) -> tuple[TrainRequest, OpenTrainers | None]:
    """Returns the request and its trainers, None for one; those named take the place of its configuration's.

    Args:
        request: Graph, configuration and task.
        asked: Trainers that were named.
        said: Of those that were not.
        us: What this process is of a training run. Of several, and with a graph on graph servers, a configuration's
            trainers are left out, which a line says.
        run: Folder of the run that goes on; None for a new one.
        notify: Takes lines for people.

    Raises:
        UsageError: As of `Trainers.of` and `Trainers.on`; or ranks train by an algorithm, of which nothing changes.
        DeviceError: A device is not there.
    """
    _check_algorithm(us, asked, said.adapt)
    if asked is not None:
        request = dataclasses.replace(request, config=with_one_trainer(request.config))
    else:
        request = _with_possible_trainers(request, us, notify)
        asked = configured(request.config, *said)
    if asked is None:
        return request, None
    several = asked.on(
        request.graph,
        request.config,
        request.task,
        us.count,
        kept=None if run is None else saved_shares(run),
        hardware=lambda: probe_hardware(notify=notify),
    )
    for line in several.lines:
        notify(line)
    return request, several


def _check_algorithm(us: Alone, asked: Trainers | None, adapt: bool) -> None:
    names = [name for name, is_said in (("trainers", asked is not None), ("adapt", adapt)) if is_said]
    if us.algorithm is not None and names:
        raise UsageError(
            f"{option(names[0])} must be left out with {option('algorithm')}, by which each rank trains mini-batches "
            f"of its own part in one way, got {us.algorithm}; choose one of them"
        )


def _with_possible_trainers(request: TrainRequest, us: Alone, notify: Callable[[str], None]) -> TrainRequest:
    """Returns `request` with one trainer where there can't be several, and says so: nobody has named any here."""
    config = request.config
    if us.algorithm is not None or us.count > 1:
        where = f"where {us.count} ranks train" if us.count > 1 else f"with algorithm {us.algorithm}"
    elif isinstance(request.graph, PartedGraph):
        where = "with a graph on graph servers"
    else:
        return request
    if config.canonical().trainers == 1:
        return request
    notify(f"the configuration's trainers ({config.trainers}) count as 1 {where}, and so does what it says of several")
    # Knobs that are idle beside several trainers, such as resources, stay without effect.
    return dataclasses.replace(request, config=with_one_trainer(config.canonical()))
