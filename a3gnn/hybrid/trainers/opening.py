"""`open_request`: opens the trainer of a request: one trainer, this process's share of it, or several trainers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.trainers.adapting import default_controller
from a3gnn.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.hybrid.trainers.request import OpenTrainers, Trainers
from a3gnn.machine.probe import probe_hardware
from a3gnn.option_names import option
from a3gnn.task import Task
from a3gnn.training.adapting.trainer import AdaptingTrainer, check_adapting
from a3gnn.training.checkpoint import saved_shares
from a3gnn.training.rank_processes import Alone
from a3gnn.training.request import TrainRequest
from a3gnn.training.trainer import Trainer, TrainerOptions


def open_hybrid(
    graph: Graph, config: TrainConfig, task: Task, several: OpenTrainers, options: TrainerOptions
) -> HybridTrainer:
    """Opens the trainers `several`; other arguments and errors are those of `Trainer`.

    Ignores knobs that have no effect on several trainers.
    """
    config = config.canonical() if config.trainers > 1 else config
    asked = several.asked
    controller = default_controller(config, several.devices, asked.schedule) if asked.adapt else None
    return HybridTrainer(graph, config, task, options, trainers=several, controller=controller)


def open_request(
    asked: Trainers, request: TrainRequest, process: Alone, run: str | Path | None, notify: Callable[[str], None]
) -> OpenRequest:
    """Returns what trains `request`, its model described and its configuration adapted to this process.

    Args:
        asked: The options for several trainers.
        request: Graph, configuration and task.
        process: This process in a training run. With several ranks, or with a graph on graph servers, the
            configuration's trainers are ignored, and a message says so.
        run: Folder of the run to resume; None for a new one.
        notify: Takes messages for people.

    Raises:
        UsageError: See `Trainers.of`, `Trainers.on` and `check_adapting`; or ranks train by an algorithm, which
            excludes these options.
        DeviceError: A device does not exist.
    """
    request = process.adapted(request.described(notify), notify)
    _check_algorithm(process, asked)
    if asked.names is not None:
        request = dataclasses.replace(request, config=with_one_trainer(request.config))
    else:
        request = _with_possible_trainers(request, process, notify)
    trainers = asked.of(request.config)
    if trainers is None:
        if asked.adapt:
            check_adapting(request.graph, request.config, process.count)
        return OpenRequest(request, None, process, asked.adapt)
    several = trainers.on(
        request.graph,
        request.config,
        request.task,
        process.count,
        kept=None if run is None else saved_shares(run),
        hardware=lambda: probe_hardware(notify=notify),
    )
    for line in several.lines:
        notify(line)
    return OpenRequest(request, several, process, asked.adapt)


class OpenRequest(NamedTuple):
    """A request, several trainers of this process or None, this process, and whether a single trainer adapts."""

    request: TrainRequest
    several: OpenTrainers | None
    process: Alone
    adapt: bool

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU trains."""
        return self.process.device != "cpu" if self.several is None else self.several.use_gpu

    def trainer(self, options: TrainerOptions) -> Trainer:
        """Opens the trainer; raises the errors of `Trainer`."""
        graph, config, task = self.request.graph, self.request.config, self.request.task
        if self.several is not None:
            return open_hybrid(graph, config, task, self.several, options)
        if not self.adapt:
            return self.process.trainer(self.request, options)
        return AdaptingTrainer(graph, config, task, options, device=self.process.device)


def with_one_trainer(config: TrainConfig) -> TrainConfig:
    """Returns `config` with its settings for several trainers reset, because an option overrides them."""
    default = TrainConfig()
    return config.replace(trainers=1, prefetch_depth=default.prefetch_depth, adapt=default.adapt)


def _check_algorithm(process: Alone, asked: Trainers) -> None:
    names = [name for name, is_said in (("trainers", asked.names is not None), ("adapt", asked.adapt)) if is_said]
    if process.algorithm is not None and names:
        raise UsageError(
            f"{option(names[0])} must be left out with {option('algorithm')}, whose ranks each train mini-batches of "
            f"their own part in one way, got {process.algorithm}; choose one of them"
        )


def _with_possible_trainers(request: TrainRequest, process: Alone, notify: Callable[[str], None]) -> TrainRequest:
    """Returns `request` with one trainer, and notifies, if several are impossible and only the configuration asks."""
    config = request.config
    if process.algorithm is not None or process.count > 1:
        where = f"with {process.count} ranks" if process.count > 1 else f"with algorithm {process.algorithm}"
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
