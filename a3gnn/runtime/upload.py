"""Copies of mini-batches to a CUDA device, beside the kernels that train."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from a3gnn.runtime.batch import MiniBatch


class Arrival(NamedTuple):
    """When a mini-batch's copy began and ended, as events of the stream that made it."""

    begin: torch.cuda.Event
    end: torch.cuda.Event

    def wait(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """Lets the caller's stream wait for the copy, the host not, and tells the allocator who uses `tensors`.

        The copies' stream made them: without that, their memory could be overwritten by its next copies once the host
        has dropped them, while the caller's stream has yet to read them.

        Args:
            tensors: Dense ones; of a sparse tensor its parts.
        """
        stream = torch.cuda.current_stream(tensors[0].device)
        stream.wait_event(self.end)
        for tensor in tensors:
            tensor.record_stream(stream)

    def seconds(self) -> float:
        """Returns the seconds that the copy took; waits for its end."""
        self.end.synchronize()
        return float(self.begin.elapsed_time(self.end)) / 1e3


class Upload:
    """One stream per thread, so that copies wait neither for kernels that train nor for each other.

    Args:
        device: A CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._threads = threading.local()

    @contextmanager
    def stream(self) -> Iterator[torch.cuda.Stream]:
        """Makes the calling thread's own stream the current one."""
        if not hasattr(self._threads, "stream"):
            self._threads.stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._threads.stream):
            yield self._threads.stream

    def send(self, batch: MiniBatch) -> MiniBatch:
        """Returns `batch`, which is on the host, on its way to the device; the host may overwrite it at once."""
        with self.stream() as stream:
            kept = batch.pinned()
            begin = self.mark(stream)
            moved = kept.to(self._device, non_blocking=True)
            moved.arrival = Arrival(begin, self.mark(stream))
        return moved

    def mark(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        """Returns an event at the end of what `stream` has been given so far."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(stream)
        return event
