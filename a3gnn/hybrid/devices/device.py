"""`Device`: what a trainer runs on, by the verbs of HyScale-GNN's Listing 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter

import torch
from torch import Tensor

from a3gnn.hardware import MachineProfile
from a3gnn.hybrid.model.performance import AcceleratorSpeeds
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.counts import Counts
from a3gnn.training.adapting.stage_times import TrainerKind


class Device(ABC):
    """One trainer's device. `send` may be called by any thread, the rest by the trainer's own alone.

    Above it is the application, which knows trainers, mini-batches and gradients, and no device; below it the hardware,
    or what simulates it. A new kind is one module with a class of this, and its line in `KINDS` (`opening.py`).

    Args:
        name: As people name it.

    Attributes:
        kind: Whether it has memory of its own behind a link.
        memory: Where torch has its tensors: cpu, or cuda with its number.
        threads: Of the host, that compute for it; where they are more than one, they may be changed between launches.
        memory_bytes: Of its own memory; infinite where it uses the host's.
        page_locked: Whether `send` copies from page-locked memory of the host.
        is_simulated: Whether its seconds are of a virtual clock.
        name: As given.
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
        """Within it, the calling thread computes for this device, on the host's threads that are its own."""

    @abstractmethod
    def send(self, batch: MiniBatch) -> MiniBatch:
        """Returns `batch`, which is on the host, in the device's memory or on its way there.

        Its `seconds.transfer` are those of the link where they are known by then. The caller may overwrite `batch.x`
        only once the returned one is trained.

        Raises:
            MemoryLimitError: It does not fit.
        """

    @abstractmethod
    def launch(self, kernel: Callable[[MiniBatch], Tensor], batch: MiniBatch) -> Tensor:
        """Returns what `kernel` computes of `batch`, as `send` returned it; it may be on its way."""

    @abstractmethod
    def execution_seconds(self) -> float:
        """Returns what the last launch took, waiting for other trainers left out; waits for its end."""

    @abstractmethod
    def transfer_seconds(self, batch: MiniBatch) -> float:
        """Returns what it took to send `batch`, which has been trained; 0 where nothing is sent."""

    def speeds(self, profile: MachineProfile) -> AcceleratorSpeeds:
        """Returns what the performance model takes an accelerator for; `profile` is what the probe found here.

        Raises:
            NotImplementedError: It is none.
        """
        raise NotImplementedError(f"{self.name} is no accelerator")

    def fits(self, counts: Counts) -> bool:
        """Returns whether a share that holds so much fits into its memory, as far as that is known before it runs."""
        return True

    def most_seeds(self) -> int | None:
        """Returns how many seeds fit by the largest share so far, as more of them reach more nodes together.

        None before there was one, and where the host's memory is used.
        """
        seeds, taken = self._largest
        return int(seeds * self.memory_bytes / taken) if taken else None

    def _took(self, batch: MiniBatch, nbytes: float) -> None:
        """Notes that `batch` takes so many bytes of the device's memory."""
        share = batch.subgraph.share
        seeds = batch.num_seeds if share is None else share.num_seeds
        if seeds >= self._largest[0]:
            self._largest = seeds, nbytes

    @abstractmethod
    def receive(self, values: Tensor) -> Tensor:
        """Returns `values` in the host's memory, once they are all there."""

    def handshake(self, values: Tensor, exchange: Callable[[Tensor], Tensor]) -> None:
        """Overwrites `values` by what all trainers' come to.

        Args:
            values: In the device's memory.
            exchange: Says DONE with the values in the host's memory, waits, and returns what is broadcast, there, too.
        """
        given = self.receive(values)
        begin = perf_counter()
        total = exchange(given)
        self._waited += perf_counter() - begin
        values.copy_(total)
