"""A simulated platform: processors, accelerators, their memory and links; and the seconds of work on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from a3gnn.checks import positive_number, real_number, whole_number
from a3gnn.errors import UsageError
from a3gnn.hybrid.assignment import trainer_kinds
from a3gnn.hybrid.devices.simulated_accelerator import SimulatedAccelerator, SimulatedModel, operations
from a3gnn.hybrid.stage_times import TrainerKind
from a3gnn.sampling.counts import Counts

#: Bytes of a value, and of a cache line.
_VALUE, _LINE = 4.0, 64.0


@dataclass(frozen=True, slots=True)
class SimulatedProcessor:
    """All processors of the host, as one pool of threads.

    Attributes:
        threads: Threads that can run at once.
        flops_per_s: Multiplications and additions per second, of one thread.
        load_bytes_per_s: Feature bytes that one thread gathers per second, out of cache.
        sampled_edges_per_s: Edges that one thread samples per second.
        memory_bytes_per_s: Bandwidth of the host's memory, which loading, trainers and transfers share.
        thread_loss: Each of t threads works at 1 / (1 + thread_loss (t - 1)) of its speed alone.
        launch_s: Seconds to start one operation of a model.
    """

    threads: int
    flops_per_s: float
    load_bytes_per_s: float
    sampled_edges_per_s: float
    memory_bytes_per_s: float
    thread_loss: float = 0.0
    launch_s: float = 0.0

    def __post_init__(self) -> None:
        whole_number("threads", self.threads, 1)
        for name in ("flops_per_s", "load_bytes_per_s", "sampled_edges_per_s", "memory_bytes_per_s"):
            positive_number(name, getattr(self, name), "number")
        real_number("launch_s", self.launch_s, "second")
        real_number("thread_loss", self.thread_loss, "per thread")

    def speed(self, threads: int) -> float:
        """Returns the speed of `threads` threads, relative to one thread."""
        return threads / (1 + self.thread_loss * max(threads - 1, 0))


@dataclass(frozen=True, slots=True)
class SimulatedPlatform:
    """A host and its accelerators. All processors are one trainer, and so is each accelerator.

    Attributes:
        processor: The host's processors.
        accelerators: The accelerators; may be empty.
        sent_host_bytes: Bytes of the host's memory bandwidth that a byte on a link takes: 1 if a copy reads memory, 0
            as in the paper ("they utilize different memory channels").
        jitter: Standard deviation of the logarithm of each operation's seconds.
    """

    processor: SimulatedProcessor
    accelerators: tuple[SimulatedAccelerator, ...] = field(default=())
    sent_host_bytes: float = 1.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        real_number("sent_host_bytes", self.sent_host_bytes, "byte")
        if not 0 <= self.jitter < math.inf:
            raise UsageError(f"jitter must be >= 0, got {self.jitter}; 0 turns it off")

    @property
    def kinds(self) -> tuple[TrainerKind, ...]:
        """The kind of each trainer: the processors, then the accelerators."""
        return trainer_kinds(len(self.accelerators))

    @property
    def can_sample(self) -> bool:
        """Whether there are accelerators, and all of them sample."""
        return bool(self.accelerators) and all(one.sampled_edges_per_s > 0 for one in self.accelerators)


@dataclass(frozen=True, slots=True)
class HostWork:
    """The cost of a step on the processors.

    Attributes:
        seconds: Seconds, if nothing else used the host's memory.
        moved_bytes: Bytes that the step moves.
    """

    seconds: float
    moved_bytes: float


def on_processor(processor: SimulatedProcessor, threads: int, model: SimulatedModel, counts: Counts) -> HostWork:
    """Returns the cost of a step on `threads` threads; each operation is bound by arithmetic or by memory."""
    speed = processor.speed(threads)
    bandwidth = min(processor.memory_bytes_per_s, speed * processor.load_bytes_per_s)
    seconds = moved = 0.0
    for one in operations(model, counts):
        seconds += processor.launch_s + max(one.flops / (speed * processor.flops_per_s), one.moved_bytes / bandwidth)
        moved += one.moved_bytes
    return HostWork(seconds, moved)


def loaded_bytes(model: SimulatedModel, counts: Counts) -> float:
    """Returns the bytes that loading reads for a trainer: cache lines of its rows, or its edges' if it sums them.

    A row whose size is not a multiple of a line may begin anywhere in a line.
    """
    rows = counts.layers[0][2] if model.fused_gather else counts.input_nodes
    size = _VALUE * model.widths[0]
    return rows * (size if size % _LINE == 0 else size + _LINE - _VALUE)


def sampling_on_processor(processor: SimulatedProcessor, threads: int, counts: Counts) -> float:
    """Returns the seconds in which `threads` threads sample the edges in `counts`."""
    return sum(counts.edges) / (processor.speed(threads) * processor.sampled_edges_per_s)


def sampling_on_accelerator(device: SimulatedAccelerator, counts: Counts) -> float:
    """Returns the seconds in which an otherwise idle `device` samples the edges in `counts`."""
    return device.launch_s + sum(counts.edges) / device.sampled_edges_per_s
