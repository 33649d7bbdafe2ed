"""`processes`: the behavior of a training run as one process, or as one of several ranks that `torchrun` started.

Rank 0 has the run's folder, and sends the others its content.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import torch

from a3gnn.errors import UsageError
from a3gnn.launch import launch
from a3gnn.option_names import option
from a3gnn.ranks.exchange import summed
from a3gnn.ranks.group import TorchRanks, joined
from a3gnn.ranks.joined_step import warm_up
from a3gnn.ranks.peers import Member
from a3gnn.sampling.share import Shares
from a3gnn.training.checkpoint import restore_checkpoint
from a3gnn.training.fit import Interrupt
from a3gnn.training.progress import EpochResult, Progress
from a3gnn.training.request import TrainRequest
from a3gnn.training.run_folder import RunFolder
from a3gnn.training.trainer import Trainer, TrainerOptions
from a3gnn.units import format_size


class Alone:
    """A training run with one process.

    Attributes:
        member: This process's share of mini-batches; None trains whole ones.
        count: Number of processes.
        speaks: Whether this process prints messages.
        leads_machine: Whether this process reports on its machine.
    """

    member: Member | None = None
    count = 1
    speaks = True
    leads_machine = True

    @property
    def device(self) -> str:
        """The device that this process trains on."""
        return "cuda" if torch.cuda.is_available() else "cpu"

    def first_alone(self) -> AbstractContextManager[None]:
        """Returns a context for work that one process per machine must do first."""
        return nullcontext()

    def folder(self, path: Callable[[], Path], *, resume: bool) -> RunFolder:
        """Returns the run's folder at the path that `path` returns."""
        return RunFolder(path(), resume=resume)

    def interrupt(self) -> Interrupt:
        """Returns the handler of Ctrl-C."""
        return Interrupt()

    def trainer(self, request: TrainRequest, options: TrainerOptions) -> Trainer:
        """Returns the trainer of `request` in this process."""
        given = request.graph, request.config, request.task
        return Trainer(*given, options, device=self.device, member=self.member)

    def prepare(self, trainer: Trainer) -> None:
        """Builds lazily made files now, so that one process per machine builds them."""

    def adapted(self, request: TrainRequest, notify: Callable[[str], None]) -> TrainRequest:
        """Adapts `request` from one process to several ranks; passes a message on each change to `notify`."""
        return request

    def limit(self, host_bytes: int | None, notify: Callable[[str], None]) -> int | None:
        """Returns this process's part of a machine's memory limit; notifies if it is not the whole limit."""
        return host_bytes

    def said(self, notify: Callable[[str], None]) -> Callable[[str], None]:
        """Returns a function for messages: `notify` in the process that speaks."""
        return notify

    def total(self, count: int) -> int:
        """Returns the sum of every process's `count`."""
        return count

    @property
    def algorithm(self) -> str | None:
        """The name of the algorithm that ranks train by; None for shares of mini-batches and for one process."""
        return None

    @property
    def identity(self) -> dict[str, Any]:
        """Properties of the algorithm that must be equal to resume a run (`a3gnn.training.checkpoint.identity`)."""
        return {}

    def told(self, done: Progress) -> dict[str, Any] | None:
        """Returns the algorithm's entry in a result after `done`; None without an algorithm."""
        return None


class Together(Alone):
    """One of several processes; rank 0 writes files and prints messages.

    Args:
        ranks: The group of all processes.
    """

    member: Member

    def __init__(self, ranks: TorchRanks) -> None:
        self._ranks = ranks
        self.count, self.speaks, self.leads_machine = ranks.size, not ranks.rank, not ranks.launch.local_rank
        self.member = Member(Shares.equal(ranks.rank, ranks.size), ranks, ranks)

    @property
    def device(self) -> str:
        """A GPU of its own for each rank of a machine, or cpu. Named explicitly, because threads default to cuda:0."""
        return f"cuda:{self._ranks.launch.local_rank}" if torch.cuda.is_available() else "cpu"

    def first_alone(self) -> AbstractContextManager[None]:
        """Returns a context that the first rank of each machine runs first; the others then find its files."""
        return self._ranks.first_alone()

    def folder(self, path: Callable[[], Path], *, resume: bool) -> RunFolder:
        """Returns the run's folder, at the path that `path` returns on rank 0."""
        if self._ranks.rank:
            return FollowerFolder(self._ranks)
        return LeaderFolder(path(), resume=resume, ranks=self._ranks)

    def interrupt(self) -> Interrupt:
        """Returns a handler of Ctrl-C that lets all ranks stop at the same mini-batch."""
        return Interrupt(agreed=True)

    def prepare(self, trainer: Trainer) -> None:
        """Builds files that evaluation reads, such as a table of the input layer."""
        _ = trainer.validation_cost

    def adapted(self, request: TrainRequest, notify: Callable[[str], None]) -> TrainRequest:
        """Switches `request` to features read by memory map, if a machine has several ranks.

        These ranks then share one copy; in RAM, each would have its own.

        Raises:
            UsageError: The graph is on graph servers.
        """
        if request.graph.is_parted:
            raise UsageError(
                f"{option('dataset')} must be a graph that each of the {self.count} ranks can read, got parts on "
                "graph servers. Each rank would request whole mini-batches from them. Train in one process"
            )
        local = self._ranks.launch.local_size
        if request.config.feature_tier == "disk" or local == 1:
            return request
        notify(f"features are read by memory map (feature_tier disk), one copy for the {local} ranks of this machine")
        return dataclasses.replace(request, config=request.config.replace(feature_tier="disk"))

    def limit(self, host_bytes: int | None, notify: Callable[[str], None]) -> int | None:
        """Divides the limit by the number of ranks on this machine; notifies if there are several."""
        local = self._ranks.launch.local_size
        if host_bytes is None or local == 1:
            return host_bytes
        part = host_bytes // local
        notify(
            f"the {local} ranks of a machine share the host memory limit of {format_size(host_bytes)}; each rank may "
            f"use {format_size(part)}"
        )
        return part

    def said(self, notify: Callable[[str], None]) -> Callable[[str], None]:
        """Returns `notify` on rank 0; other ranks get a function that drops their messages, which would be the same."""
        return notify if self.speaks else lambda line: None

    def total(self, count: int) -> int:
        """Returns the sum of all ranks' `count`; every rank calls it."""
        return int(summed(self._ranks, np.array([count]))[0])


class SynchronousAlgorithm(Protocol):
    """An algorithm by which ranks train, instead of by shares of every mini-batch (`a3gnn.hitgnn.algorithms`)."""

    @property
    def name(self) -> str:
        """The name in messages and checkpoints."""

    def joined(self, ranks: TorchRanks) -> Together:
        """Returns the behavior of this process in a training run of `ranks`."""


@contextmanager
def processes(algorithm: SynchronousAlgorithm | None = None) -> Generator[Alone]:
    """Joins the process group, if any, and yields the behavior of this process: `Alone` or `Together`.

    The group exists until the context ends.

    Args:
        algorithm: By which several ranks train; None trains shares of every mini-batch.

    Raises:
        UsageError: The environment names several processes but not this one's rank, or an algorithm needs several
            processes and there is only one.
        DeviceError: There are fewer GPUs than ranks.
        PeerLostError: Other ranks did not join.
    """
    launched = launch()
    if launched is None:
        if algorithm is not None:
            raise UsageError(
                f"algorithm {algorithm.name} needs several ranks, got one process; start torchrun --nproc-per-node "
                "N, or a3gnn train --ranks N"
            )
        yield Alone()
        return
    with joined(launched) as ranks:
        with ranks.first_alone():
            warm_up()
        yield Together(ranks) if algorithm is None else algorithm.joined(ranks)


class LeaderFolder(RunFolder):
    """The folder of rank 0; see `RunFolder`.

    Args:
        path: The folder.
        resume: Whether to continue a run in it.
        ranks: The ranks that receive its content.

    Raises:
        UsageError: See `RunFolder`.
        A3GNNError: See `RunFolder`.
    """

    def __init__(self, path: Path, *, resume: bool, ranks: TorchRanks) -> None:
        super().__init__(path, resume=resume)
        self._ranks = ranks
        self._turn = uuid4().hex  # claimed once per run, because a group may serve several runs
        ranks.bytes_of_first(os.fsencode(f"{self._turn}{path.absolute()}"))

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Returns the progress to continue from, the same on all ranks."""
        progress = super().begin(trainer, known)
        self._ranks.bytes_of_first(self._checkpoint.read_bytes())
        progress.under_way.forget_work()
        return progress

    def keep_model(self, *, best: bool) -> None:
        """Writes a last checkpoint and model.pt, and sets all trainers to its weights."""
        super().keep_model(best=best)
        written = BytesIO()
        torch.save(self._trainer.model.state_dict(), written)
        self._ranks.bytes_of_first(written.getvalue())

    def save_without_all(self) -> bool:
        """After ranks were lost, writes a checkpoint unless another rank does; returns whether this one has.

        If the lost ranks had a part of the weights, nothing is written, and the last checkpoint stays.
        """
        if not (self._trainer.ready_to_save() and self._ranks.claim(self._turn)):
            return False
        self.save()
        return True

    def save_at_stop(self) -> None:
        """Writes a checkpoint as `save_without_all`, because other ranks may have lost those that stopped earlier."""
        self.save_without_all()


class FollowerFolder(RunFolder):
    """The folder on other ranks: they receive its content from rank 0, and write nothing while rank 0 runs.

    Args:
        ranks: All ranks, including rank 0.
    """

    def __init__(self, ranks: TorchRanks) -> None:
        told, length = os.fsdecode(ranks.bytes_of_first(b"")), len(uuid4().hex)
        self._turn, self.path, self._ranks = told[:length], Path(told[length:]), ranks

    @property
    def scratch(self) -> None:
        """None, for the cache folder, because rank 0's path may be on another machine."""
        return

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Sets `trainer` to the state to continue from, and returns its progress.

        Raises:
            ConfigError: This rank trains something else than rank 0.
        """
        self._trainer, self._known = trainer, known
        content = BytesIO(self._ranks.bytes_of_first(b""))
        self._progress = restore_checkpoint(self._checkpoint, trainer, known, content)
        self._progress.under_way.forget_work()
        return self._progress

    def save(self) -> None:
        """Does nothing: rank 0 saves."""

    def save_at_stop(self) -> None:
        """Does nothing: rank 0 saves."""

    def save_if_due(self) -> None:
        """Does nothing: rank 0 saves."""

    def finish_epoch(self, result: EpochResult) -> None:
        """Does nothing: rank 0 logs the result."""

    def finish(self, result: dict[str, Any]) -> None:
        """Does nothing: rank 0 writes the result."""

    def keep_model(self, *, best: bool) -> None:
        """Sets the trainer to the weights of rank 0's model.pt."""
        content = BytesIO(self._ranks.bytes_of_first(b""))
        self._trainer.model.load_state_dict(torch.load(content, map_location="cpu", weights_only=True))

    def save_without_all(self) -> bool:
        """After ranks were lost, writes a checkpoint unless another rank does; returns whether this one has.

        If this machine doesn't see rank 0's folder, or the weights of the best epoch are not in it yet, this rank
        leaves the checkpoint to others.
        """
        best = self._best_epoch()
        read = [self._checkpoint] if best is None else [self._checkpoint, self._best_path(best)]
        there = all(path.is_file() for path in read) and self._trainer.ready_to_save()
        if not (there and self._ranks.claim(self._turn)):
            return False
        self._write()
        return True
