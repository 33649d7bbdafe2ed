"""`CudaDevice`: a GPU, by torch. It was never run, because no GPU was available."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor

from a3gnn.graphs.graph import Graph
from a3gnn.hardware import MachineProfile
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.performance import AcceleratorSpeeds
from a3gnn.hybrid.stage_times import TrainerKind
from a3gnn.pipeline.batch import MiniBatch, Upload
from a3gnn.pipeline.pipeline import checked_device
from a3gnn.task import Task
from a3gnn.threads.hold import held


class CudaDevice(Device):
    """Copies on other streams than the computation, as in training on a single GPU. See `Device`.

    Raises:
        DeviceError: There is no such GPU.
    """

    kind: TrainerKind = "accelerator"
    page_locked = True

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name)
        self.memory = torch.device(checked_device(f"cuda:{number}"))
        self._upload = Upload(self.memory)
        self._launched: tuple[torch.cuda.Event, torch.cuda.Event] | None = None
        self._waited_in_launch = 0.0
        self.memory_bytes = torch.cuda.get_device_properties(self.memory).total_memory

    @classmethod
    def open(cls, name: str, argument: str, graph: Graph, task: Task) -> Self:
        """Opens cuda:NUMBER; see `a3gnn.hybrid.devices.opening`."""
        if not argument.isdecimal():
            raise ValueError("cuda:NUMBER, such as cuda:0")
        return cls(name, int(argument))

    def speeds(self, profile: MachineProfile) -> AcceleratorSpeeds:
        """Returns the probed speeds of the first GPU; all GPUs count as equal to it."""
        return AcceleratorSpeeds(
            flops_per_s=profile.device_gemm_flops_per_s,
            memory_bytes_per_s=profile.device_traffic_bytes_per_s,
            link_bytes_per_s=profile.host_to_device_bytes_per_s,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Makes the calling thread launch kernels on this GPU within the context."""
        with held(1), torch.cuda.device(self.memory):
            yield

    def send(self, batch: MiniBatch) -> MiniBatch:
        """Returns `batch` on its way to the GPU, from page-locked memory."""
        return self._upload.send(batch)

    def launch(self, kernel: Callable[[MiniBatch], Tensor], batch: MiniBatch) -> Tensor:
        """Runs `kernel` on `batch`, on a stream that waits for the batch's copy; returns its result."""
        if batch.arrival is not None:
            batch.arrival.wait(batch.tensors)
        stream, waited = torch.cuda.current_stream(self.memory), self._waited
        begin = self._upload.mark(stream)
        out = kernel(batch)
        self._launched = begin, self._upload.mark(stream)
        self._took(batch, torch.cuda.max_memory_reserved(self.memory))
        self._waited_in_launch = self._waited - waited
        return out

    def execution_seconds(self) -> float:
        """Returns the seconds between the events around the last launch, without waiting for other trainers."""
        assert self._launched is not None, "something was launched"
        begin, end = self._launched
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 - self._waited_in_launch

    def transfer_seconds(self, batch: MiniBatch) -> float:
        """Returns the seconds of the copy."""
        return 0.0 if batch.arrival is None else batch.arrival.seconds()

    def receive(self, values: Tensor) -> Tensor:
        """Returns `values` in the host's memory."""
        return values.cpu()
