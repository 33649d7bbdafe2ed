"""Copies of mini-batches to a CUDA device, beside the kernels that train."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from a3gnn.config import DEVICES, DeviceName
from a3gnn.errors import DeviceError, UsageError
from a3gnn.features.rows.tensors import lent

if TYPE_CHECKING:
    from a3gnn.pipeline.batch import MiniBatch


def checked_device(device: Any, sampling_device: DeviceName = "cpu") -> str:
    """Returns `device` as text: cpu, or cuda with its number if it has one.

    Args:
        device: As text or as torch's.
        sampling_device: Where neighbours are sampled, which is checked too.

    Raises:
        UsageError: It is no device that mini-batches can lie on.
        DeviceError: It is not there.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"device must be cpu or cuda, got {device!r}") from error
    if found.type not in DEVICES:
        raise UsageError(f"device must be cpu or cuda, got {device!r}; leave it out, and move mini-batches yourself")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for name, kind in (("sampling_device", sampling_device), ("device", found.type)):
        if kind == "cuda" and not count:
            raise DeviceError(f"{name} is cuda, but torch finds no CUDA device here; use cpu or a machine with a GPU")
    if found.type == "cuda" and (found.index or 0) >= count:
        raise DeviceError(f"device must be cuda:0 to cuda:{count - 1} here, got {device!r}")
    return "cpu" if found.type == "cpu" else str(found)


def gpus_of(devices: Iterable[torch.device]) -> tuple[int, ...]:
    """Returns torch's numbers of those of `devices` that are GPUs."""
    return tuple(device.index or 0 for device in devices if device.type == "cuda")


# Rows of a buffer over those of the longest mini-batch so far. Guess.
_SLACK = 1.1


class BufferPool:
    """Hands out buffers and takes them back; safe to call from several threads.

    Buffers are as long as the longest mini-batch so far needed, and a tenth more: worst-case buffers would take
    gigabytes. What is taken must be given back; what is lent comes back. Of those that came back at most `spare` are
    kept: memory that many mini-batches held at once is freed with them.

    Args:
        width: Columns.
        spare: Buffers that may wait to be handed out again.
        dtype: float32 or bfloat16.
    """

    def __init__(self, width: int, spare: int, dtype: torch.dtype = torch.float32) -> None:
        self._width = width
        self._dtype = dtype
        # Appending to a full one drops the buffer that has waited longest.
        self._free: deque[torch.Tensor] = deque(maxlen=spare)
        self._rows = 0

    def take(self, rows: int) -> torch.Tensor:
        """Returns a buffer's first `rows` rows, shape (rows, width), with whatever they held."""
        return self._buffer(rows)[:rows]

    def give(self, taken: torch.Tensor) -> None:
        """Takes back what `take` returned; its memory may be handed out again."""
        whole = taken._base
        self._free.append(whole if whole is not None else taken)

    def lend(self, rows: int) -> torch.Tensor:
        """Returns the same as `take`, whose memory is handed out again once no tensor uses it any more."""
        return lent(self._buffer(rows), rows, self._free.append)

    def keep(self, spare: int) -> None:
        """Lets at most `spare` buffers wait from now on; no mini-batch may be under way."""
        self._free = deque(self._free, maxlen=spare)

    def _buffer(self, rows: int) -> torch.Tensor:
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = torch.empty((0, self._width), dtype=self._dtype)
        if len(buffer) < rows:
            self._rows = max(self._rows, int(rows * _SLACK))
            # The short one goes before the long one comes, so that both are never held at once.
            del buffer
            buffer = torch.empty((max(self._rows, rows), self._width), dtype=self._dtype)
        return buffer


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
