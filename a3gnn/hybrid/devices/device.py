"""`Device`: the device of a trainer, with the verbs of HyScale-GNN's Listing 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter

import torch
from torch import Tensor

from a3gnn.hardware import MachineProfile
from a3gnn.hybrid.performance import AcceleratorSpeeds
from a3gnn.hybrid.stage_times import TrainerKind
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.counts import Counts


class Device(ABC):
    """One trainer's device. Any thread may call `send`; only the trainer's own thread calls the other methods.

    The application above it knows trainers, mini-batches and gradients, but no devices. Below it is the hardware or a
    simulation. A new kind is one module with a subclass, and a line in `KINDS` (`opening.py`).

    Attributes:
        kind: Whether it has memory of its own behind a link.
        memory: The torch device of its tensors: cpu, or cuda with its number.
        threads: Threads of the host that compute for it. If there are several, they may be changed between launches.
        memory_bytes: Bytes of its own memory; infinite if it uses the host's.
        page_locked: Whether `send` copies from page-locked memory of the host.
        is_simulated: Whether its seconds come from a virtual clock.
        name: The device's name for people.
    """

    kind: TrainerKind
    memory: torch.device
    threads: int = 0
    memory_bytes: float = math.inf
    page_locked: bool = False
    is_simulated: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._waited = 0.0
        self._largest = 0, 0.0

    @abstractmethod
    def running(self) -> AbstractContextManager[object]:
        """Makes the calling thread compute for this device within the context, on the device's host threads."""

    @abstractmethod
    def send(self, batch: MiniBatch) -> MiniBatch:
        """Returns `batch`, which is on the host, in the device's memory or on its way there.

        Sets `seconds.transfer` to the seconds of the link if they are known by then. The caller may overwrite `batch.x`
        only once the returned batch is trained.

        Raises:
            MemoryLimitError: The batch does not fit.
        """

    @abstractmethod
    def launch(self, kernel: Callable[[MiniBatch], Tensor], batch: MiniBatch) -> Tensor:
        """Runs `kernel` on a `batch` from `send`, which may still be on its way; returns its result."""

    @abstractmethod
    def execution_seconds(self) -> float:
        """Waits for the last launch, and returns its seconds without the wait for other trainers."""

    @abstractmethod
    def transfer_seconds(self, batch: MiniBatch) -> float:
        """Returns the seconds of sending `batch`, which has been trained; 0 if nothing is sent."""

    def speeds(self, profile: MachineProfile) -> AcceleratorSpeeds:
        """Returns the accelerator's speeds for the performance model; `profile` is this machine's, from the probe.

        Raises:
            NotImplementedError: The device is no accelerator.
        """
        raise NotImplementedError(f"{self.name} is not an accelerator")

    def fits(self, counts: Counts) -> bool:
        """Returns whether a share with these counts fits into its memory, as far as that is known in advance."""
        return True

    def most_seeds(self) -> int | None:
        """Returns the number of seeds that fit, by the largest share so far, as more seeds reach more nodes together.

        Returns None before the first share, and if the device uses the host's memory.
        """
        seeds, taken = self._largest
        return int(seeds * self.memory_bytes / taken) if taken else None

    def _took(self, batch: MiniBatch, nbytes: float) -> None:
        """Records the bytes of the device's memory that `batch` takes."""
        share = batch.subgraph.share
        seeds = batch.num_seeds if share is None else share.num_seeds
        if seeds >= self._largest[0]:
            self._largest = seeds, nbytes

    @abstractmethod
    def receive(self, values: Tensor) -> Tensor:
        """Returns `values` in the host's memory, once they have all arrived."""

    def handshake(self, values: Tensor, exchange: Callable[[Tensor], Tensor]) -> None:
        """Replaces `values` with the combined values of all trainers.

        Args:
            values: A tensor in the device's memory.
            exchange: Says DONE with the values in the host's memory, waits, and returns the broadcast result there.
        """
        given = self.receive(values)
        begin = perf_counter()
        total = exchange(given)
        self._waited += perf_counter() - begin
        values.copy_(total)
