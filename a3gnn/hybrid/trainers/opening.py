"""`open_trainer`: opens the trainer of a request: one trainer, this process's share of it, or several trainers.

`open_several` chooses several trainers by options or by the configuration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.schedule import STALL_S, Schedule, TrainerSampling
from a3gnn.hybrid.trainers.adapting import default_controller
from a3gnn.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.hybrid.trainers.request import OpenTrainers, Trainers
from a3gnn.machine.probe import probe_hardware
from a3gnn.option_names import option
from a3gnn.task import Task
from a3gnn.threads import pool
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.checkpoint import saved_shares
from a3gnn.training.rank_processes import Alone
from a3gnn.training.request import TrainRequest
from a3gnn.training.trainer import Trainer, TrainerOptions


def open_trainer(
    request: TrainRequest,
    several: OpenTrainers | None,
    us: Alone,
    options: TrainerOptions,
    *,
    adapt: bool,
) -> Trainer:
    """Returns the trainer of `request`; raises the errors of `Trainer`.

    Args:
        request: Graph, configuration and task.
        several: Trainers of this process; None for one.
        us: This process in a training run.
        options: See `Trainer`.
        adapt: Whether one trainer adapts its preparation of mini-batches; ignored for `several`, which have their own
            setting.
    """
    given = request.graph, request.config, request.task
    if several is not None:
        return open_hybrid(*given, several, options)
    if not adapt:
        return us.trainer(request, options)
    return AdaptingTrainer(*given, options, device=us.device, expected=request.promised)


def open_hybrid(
    graph: Graph, config: TrainConfig, task: Task, several: OpenTrainers, options: TrainerOptions
) -> HybridTrainer:
    """Opens the trainers `several`; other arguments and errors are those of `Trainer`.

    Ignores knobs that have no effect on several trainers.
    """
    config = config.canonical() if config.trainers > 1 else config
    prefetch = several.asked.schedule
    return HybridTrainer(
        graph,
        config,
        task,
        options,
        devices=several.devices,
        assignment=several.assignment,
        independent=several.asked.sampling == "independent",
        stall_s=several.asked.stall_s,
        controller=default_controller(config, several.devices, prefetch) if several.asked.adapt else None,
        prefetch=prefetch,
    )


class NamedTrainers(NamedTuple):
    """Options for trainers that the configuration names; see `Trainers`.

    Attributes:
        shares: Seeds of each trainer.
        sampling: How mini-batches are sampled.
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
    said: NamedTrainers,
    us: Alone,
    run: str | Path | None,
    notify: Callable[[str], None],
) -> tuple[TrainRequest, OpenTrainers | None]:
    """Returns the request and its trainers, or None for one trainer; `asked` overrides the configuration's trainers.

    Args:
        request: Graph, configuration and task.
        asked: Trainers named by an option; None uses the configuration's.
        said: Options for the configuration's trainers.
        us: This process in a training run. With several ranks, or with a graph on graph servers, the configuration's
            trainers are ignored, and a message says so.
        run: Folder of the run to resume; None for a new one.
        notify: Takes messages for people.

    Raises:
        UsageError: See `Trainers.of` and `Trainers.on`; or ranks train by an algorithm, which excludes these options.
        DeviceError: A device does not exist.
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


def configured(
    config: TrainConfig,
    shares: Sequence[int] | None = None,
    sampling: TrainerSampling = "whole",
    stall_s: float = STALL_S,
    adapt: bool = False,
    prefetch: Sequence[int] | None = None,
) -> Trainers | None:
    """Returns the trainers of `config`; None if it requests one.

    Args:
        config: Its `trainers`, `prefetch_depth` and `adapt` are used.
        shares: See `Trainers`.
        sampling: See `Trainers`.
        stall_s: See `Trainers`.
        adapt: Whether to adapt regardless of `config.adapt`.
        prefetch: Overrides the configuration's depths; None uses them.

    Raises:
        UsageError: See `Trainers.of`; or the configuration requests one trainer, and another argument needs several.
    """
    config = config.canonical()
    if config.trainers == 1:
        return Trainers.of(None, shares, sampling, stall_s, adapt, prefetch)
    if prefetch is None and config.prefetch_depth:
        prefetch = [config.prefetch_depth] * len(Schedule().depths)
    return Trainers.of(
        device_names(config.trainers), shares, sampling, stall_s, adapt or config.adapt == "on", prefetch
    )


def with_one_trainer(config: TrainConfig) -> TrainConfig:
    """Returns `config` with its settings for several trainers reset, because an option overrides them."""
    default = TrainConfig()
    return config.replace(trainers=1, prefetch_depth=default.prefetch_depth, adapt=default.adapt)


def device_names(trainers: int) -> str:
    """Returns device names for `trainers` trainers on this machine: as many GPUs as it has, processors for the rest.

    Processor trainers share the usable cores equally, except one core per GPU. Each gets at least one thread.
    """
    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = min(trainers, here)
    on_processors = trainers - gpus
    threads = max(1, (pool.usable_cores() - gpus) // max(1, on_processors))
    return ",".join([f"cpu:{threads}"] * on_processors + [f"cuda:{gpu}" for gpu in range(gpus)])


def _check_algorithm(us: Alone, asked: Trainers | None, adapt: bool) -> None:
    names = [name for name, is_said in (("trainers", asked is not None), ("adapt", adapt)) if is_said]
    if us.algorithm is not None and names:
        raise UsageError(
            f"{option(names[0])} must be left out with {option('algorithm')}, whose ranks each train mini-batches of "
            f"their own part in one way, got {us.algorithm}; choose one of them"
        )


def _with_possible_trainers(request: TrainRequest, us: Alone, notify: Callable[[str], None]) -> TrainRequest:
    """Returns `request` with one trainer, and notifies, if several are impossible and only the configuration asks."""
    config = request.config
    if us.algorithm is not None or us.count > 1:
        where = f"with {us.count} ranks" if us.count > 1 else f"with algorithm {us.algorithm}"
    elif request.graph.is_parted:
        where = "with a graph on graph servers"
    else:
        return request
    if config.canonical().trainers == 1:
        return request
    notify(
        f"the configuration's trainers ({config.trainers}) count as 1 {where}, and its settings for several trainers "
        "have no effect"
    )
    # Canonical, so that knobs without effect on several trainers, such as resources, keep having none.
    return dataclasses.replace(request, config=with_one_trainer(config.canonical()))
