"""`CudaDevice`: a GPU, by torch. No GPU could be had so far: this was not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor

from a3gnn.graphs.graph import Graph
from a3gnn.hardware import MachineProfile
from a3gnn.hybrid.devices.device import Device
from a3gnn.hybrid.model.performance import AcceleratorSpeeds
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.upload import Upload, checked_device
from a3gnn.task import Task
from a3gnn.threads.hold import held
from a3gnn.training.adapting.stage_times import TrainerKind


class CudaDevice(Device):
    """Copies on streams beside the one that computes, as single-GPU training does. See `Device`.

    Args:
        name: As people name it.
        number: As torch counts GPUs.

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
        """Returns the device of cuda:NUMBER; see `a3gnn.hybrid.devices.opening`."""
        if not argument.isdecimal():
            raise ValueError("cuda:NUMBER, such as cuda:0")
        return cls(name, int(argument))

    def speeds(self, profile: MachineProfile) -> AcceleratorSpeeds:
        """Returns what the probe found of the first GPU, like which all are taken to be."""
        found = profile.device_gemm_flops_per_s, profile.device_traffic_bytes_per_s, profile.host_to_device_bytes_per_s
        return AcceleratorSpeeds(*found)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it, the calling thread launches kernels on this GPU."""
        with held(1), torch.cuda.device(self.memory):
            yield

    def send(self, batch: MiniBatch) -> MiniBatch:
        """Returns `batch` on its way to the GPU, from page-locked memory."""
        return self._upload.send(batch)

    def launch(self, kernel: Callable[[MiniBatch], Tensor], batch: MiniBatch) -> Tensor:
        """Returns what `kernel` computes of `batch`, whose copy the stream waits for."""
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
        """Returns the seconds between the events around the last launch, waiting for other trainers left out."""
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
