"""`processes`: what a training run does as one process, or as one of several that `torchrun` started."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

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
from a3gnn.training.progress import Progress
from a3gnn.training.rank_folders import FollowerFolder, LeaderFolder
from a3gnn.training.request import TrainRequest
from a3gnn.training.run import Interrupt
from a3gnn.training.run_folder import RunFolder
from a3gnn.training.trainer import Trainer, TrainerOptions
from a3gnn.units import format_size


class Alone:
    """One process, which has all to itself.

    Attributes:
        member: The share of mini-batches that it trains; None for all.
        count: Processes.
        speaks: Whether it is this one that speaks to people.
        leads_machine: Whether it is this one that tells of its machine.
    """

    member: Member | None = None
    count = 1
    speaks = True
    leads_machine = True

    @property
    def device(self) -> str:
        """Where it trains."""
        return "cuda" if torch.cuda.is_available() else "cpu"

    def first_alone(self) -> AbstractContextManager[None]:
        """Within it, what is made once per machine is made."""
        return nullcontext()

    def folder(self, path: Callable[[], Path], *, resume: bool) -> RunFolder:
        """Returns the run's folder at what `path` returns."""
        return RunFolder(path(), resume=resume)

    def interrupt(self) -> Interrupt:
        """Returns what notes Ctrl-C."""
        return Interrupt()

    def trainer(self, request: TrainRequest, options: TrainerOptions) -> Trainer:
        """Returns the trainer of `request` in this process."""
        given = request.graph, request.config, request.task
        return Trainer(*given, options, device=self.device, member=self.member)

    def prepare(self, trainer: Trainer) -> None:
        """Makes what a trainer else makes when it is first asked for it, once per machine."""

    def adapted(self, request: TrainRequest, notify: Callable[[str], None]) -> TrainRequest:
        """Returns what is to be trained where `request` is what one process would train; says what is different."""
        return request

    def limit(self, host_bytes: int | None, notify: Callable[[str], None]) -> int | None:
        """Returns what of a machine's limit is this process's, and says so where it is not all."""
        return host_bytes

    def said(self, notify: Callable[[str], None]) -> Callable[[str], None]:
        """Returns what takes lines for people: `notify` in the process that speaks."""
        return notify

    def total(self, count: int) -> int:
        """Returns the sum of every process's `count`."""
        return count

    @property
    def algorithm(self) -> str | None:
        """The name of the algorithm that ranks train by; None of shares, and of one process."""
        return None

    @property
    def identity(self) -> dict[str, Any]:
        """What of that algorithm must be equal for a run to go on (`a3gnn.training.checkpoint.identity`), by name."""
        return {}

    def told(self, done: Progress) -> dict[str, Any] | None:
        """Returns what a result says of that algorithm after `done`; None without one."""
        return None


class Together(Alone):
    """One of several processes: rank 0 writes and speaks.

    Args:
        ranks: All of them.
    """

    member: Member

    def __init__(self, ranks: TorchRanks) -> None:
        self._ranks = ranks
        self.count, self.speaks, self.leads_machine = ranks.size, not ranks.rank, not ranks.launch.local_rank
        self.member = Member(Shares.equal(ranks.rank, ranks.size), ranks, ranks)

    @property
    def device(self) -> str:
        """Where it trains: each rank of a machine on a GPU of its own. Threads begin on the first one unless told."""
        return f"cuda:{self._ranks.launch.local_rank}" if torch.cuda.is_available() else "cpu"

    def first_alone(self) -> AbstractContextManager[None]:
        """Within it, the first rank of each machine goes ahead; the others then find what it has made."""
        return self._ranks.first_alone()

    def folder(self, path: Callable[[], Path], *, resume: bool) -> RunFolder:
        """Returns the run's folder at what `path` returns on rank 0."""
        if self._ranks.rank:
            return FollowerFolder(self._ranks)
        return LeaderFolder(path(), resume=resume, ranks=self._ranks)

    def interrupt(self) -> Interrupt:
        """Returns what notes Ctrl-C, on which all ranks act at the same mini-batch."""
        return Interrupt(agreed=True)

    def prepare(self, trainer: Trainer) -> None:
        """Makes what evaluation reads, such as a table of the input layer."""
        _ = trainer.validation_cost

    def adapted(self, request: TrainRequest, notify: Callable[[str], None]) -> TrainRequest:
        """Returns `request` with rows read by memory map, one copy for all ranks of a machine; in RAM each has one.

        Raises:
            UsageError: The graph is on graph servers.
        """
        if request.graph.is_parted:
            raise UsageError(
                f"{option('dataset')} must be a graph that each rank can read where {self.count} ranks train, got "
                "parts on graph servers, which each rank would ask for whole mini-batches; train in one process"
            )
        local = self._ranks.launch.local_size
        if request.config.feature_tier == "disk" or local == 1:
            return request
        notify(f"features are read by memory map (feature_tier disk), one copy for the {local} ranks of this machine")
        return dataclasses.replace(request, config=request.config.replace(feature_tier="disk"))

    def limit(self, host_bytes: int | None, notify: Callable[[str], None]) -> int | None:
        """Returns the limit over this machine's ranks, and says so where there are several."""
        local = self._ranks.launch.local_size
        if host_bytes is None or local == 1:
            return host_bytes
        part = host_bytes // local
        notify(
            f"the host memory limit of {format_size(host_bytes)} is of the {local} ranks of a machine together: each "
            f"keeps to {format_size(part)}"
        )
        return part

    def said(self, notify: Callable[[str], None]) -> Callable[[str], None]:
        """Returns `notify` on rank 0, and what takes lines and drops them on the others: they would say the same."""
        return notify if self.speaks else lambda line: None

    def total(self, count: int) -> int:
        """Returns the sum of all ranks' `count`; every rank calls it."""
        return int(summed(self._ranks, np.array([count]))[0])


class SynchronousAlgorithm(Protocol):
    """What ranks train by in place of shares of every mini-batch (`a3gnn.hitgnn.algorithms`)."""

    @property
    def name(self) -> str:
        """For people, and for `resume`."""

    def joined(self, ranks: TorchRanks) -> Together:
        """Returns what this process is of a training run of `ranks`."""


@contextmanager
def processes(algorithm: SynchronousAlgorithm | None = None) -> Generator[Alone]:
    """Yields what this process is of a training run, with its group while it is within.

    Args:
        algorithm: By which several ranks train; None has them train shares of every mini-batch.

    Raises:
        UsageError: The environment tells of several processes, and not which one this is; or of none where an
            algorithm needs several.
        DeviceError: There are fewer GPUs than ranks.
        PeerLostError: Others didn't come.
    """
    launched = launch()
    if launched is None:
        if algorithm is not None:
            raise UsageError(
                f"algorithm {algorithm.name} needs several ranks, got one process; start torchrun --nproc-per-node N, "
                "or have a3gnn train start it by --ranks N"
            )
        yield Alone()
        return
    with joined(launched) as ranks:
        with ranks.first_alone():
            warm_up()
        yield Together(ranks) if algorithm is None else algorithm.joined(ranks)
