"""`Upload`: copies mini-batches to a CUDA device while kernels train. Also pools host buffers, and checks devices."""

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

# Ratio of a buffer's rows to the rows of the longest mini-batch so far. Guess.
_SLACK = 1.1


class Arrival(NamedTuple):
    """The begin and end of a mini-batch's copy, as events of the stream that copies."""

    begin: torch.cuda.Event
    end: torch.cuda.Event

    def wait(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """Makes the caller's stream wait for the copy, without blocking the host, and registers it with the allocator.

        The tensors were allocated on the copying stream. Without `record_stream`, its next copies could overwrite their
        memory once the host has dropped them, before the caller's stream has read them.

        Args:
            tensors: Dense tensors, including the parts of sparse ones.
        """
        stream = torch.cuda.current_stream(tensors[0].device)
        stream.wait_event(self.end)
        for tensor in tensors:
            tensor.record_stream(stream)

    def seconds(self) -> float:
        """Waits for the end of the copy, and returns its duration in seconds."""
        self.end.synchronize()
        return float(self.begin.elapsed_time(self.end)) / 1e3


class Upload:
    """Copies on one stream per thread, so that copies wait neither for training kernels nor for each other.

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
        """Starts to copy `batch` from the host, and returns the copy; the host may overwrite `batch` at once."""
        with self.stream() as stream:
            kept = batch.pinned()
            begin = self.mark(stream)
            moved = kept.to(self._device, non_blocking=True)
            moved.arrival = Arrival(begin, self.mark(stream))
        return moved

    def mark(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        """Returns an event after all work queued on `stream` so far."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(stream)
        return event


class BufferPool:
    """Hands out buffers and takes them back; safe to call from several threads.

    Buffers are 10 percent longer than the longest mini-batch so far, because worst-case buffers would take gigabytes.
    The caller must return buffers from `take` by `give`; buffers from `lend` return by themselves. The pool keeps at
    most `spare` returned buffers, and so frees memory that many mini-batches used at once.

    Args:
        width: Columns of each buffer.
        spare: Maximum number of unused buffers.
        dtype: float32 or bfloat16.
    """

    def __init__(self, width: int, spare: int, dtype: torch.dtype = torch.float32) -> None:
        self._width = width
        self._dtype = dtype
        # Appending to a full deque drops the buffer that has waited longest.
        self._free: deque[torch.Tensor] = deque(maxlen=spare)
        self._rows = 0

    def take(self, rows: int) -> torch.Tensor:
        """Returns the first `rows` rows of a buffer, shape (rows, width), uninitialized."""
        return self._buffer(rows)[:rows]

    def give(self, taken: torch.Tensor) -> None:
        """Takes back a result of `take`; its memory may be handed out again."""
        whole = taken._base
        self._free.append(whole if whole is not None else taken)

    def lend(self, rows: int) -> torch.Tensor:
        """Returns rows as `take` does; the memory is handed out again once no tensor uses it any more."""
        return lent(self._buffer(rows), rows, self._free.append)

    def keep(self, spare: int) -> None:
        """Keeps at most `spare` unused buffers from now on; no mini-batch may be under way."""
        self._free = deque(self._free, maxlen=spare)

    def _buffer(self, rows: int) -> torch.Tensor:
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = torch.empty((0, self._width), dtype=self._dtype)
        if len(buffer) < rows:
            self._rows = max(self._rows, int(rows * _SLACK))
            # Frees the short buffer before allocating the long one, so that memory never holds both.
            del buffer
            buffer = torch.empty((max(self._rows, rows), self._width), dtype=self._dtype)
        return buffer


def checked_device(device: Any, sampling_device: DeviceName = "cpu") -> str:
    """Returns `device` as text: cpu, or cuda with its number if it has one.

    Args:
        device: A string or a `torch.device`.
        sampling_device: Where neighbors are sampled; checked too.

    Raises:
        UsageError: Mini-batches can't be on such a device.
        DeviceError: The device does not exist.
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
    """Returns torch's indices of the GPUs among `devices`."""
    return tuple(device.index or 0 for device in devices if device.type == "cuda")
