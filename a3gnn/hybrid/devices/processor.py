"""`ProcessorDevice`: threads of the host, with torch and our own kernels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Self

import torch
from torch import Tensor

from a3gnn.graphs.graph import Graph
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.stage_times import TrainerKind
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.task import Task
from a3gnn.threads import pool
from a3gnn.threads.hold import held


class ProcessorDevice(Device):
    """Computes in the memory that the mini-batch was read to; nothing is sent. See `Device`."""

    kind: TrainerKind = "processor"
    memory = torch.device("cpu")

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name)
        self.threads = self._held = threads
        self._seconds = 0.0

    @classmethod
    def open(cls, name: str, argument: str, graph: Graph, task: Task) -> Self:
        """Opens cpu:THREADS; see `a3gnn.hybrid.devices.opening`."""
        if not argument.isdecimal() or not int(argument):
            raise ValueError("cpu:THREADS, such as cpu:2")
        return cls(name, int(argument))

    def running(self) -> AbstractContextManager[object]:
        """Gives the calling thread the device's threads within the context; torch counts per thread (OpenMP)."""
        self._held = self.threads
        return held(self.threads)

    def send(self, batch: MiniBatch) -> MiniBatch:
        """Returns `batch`, which is already in the right memory."""
        return batch

    def launch(self, kernel: Callable[[MiniBatch], Tensor], batch: MiniBatch) -> Tensor:
        """Runs `kernel` on `batch`, and returns its result."""
        if self._held != self.threads:
            self._held = self.threads
            pool.limit(self._held)
            torch.set_num_threads(self._held)
        begin, waited = perf_counter(), self._waited
        out = kernel(batch)
        self._seconds = perf_counter() - begin - (self._waited - waited)
        return out

    def execution_seconds(self) -> float:
        """Returns the seconds of the last launch, without the wait for other trainers."""
        return self._seconds

    def transfer_seconds(self, batch: MiniBatch) -> float:
        """Returns 0: nothing is sent."""
        return 0.0

    def receive(self, values: Tensor) -> Tensor:
        """Returns `values`, which are in the host's memory."""
        return values
