"""The parts of a simulated platform: processors, accelerators, their memory and links."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from a3gnn.checks import positive_number, real_number, whole_number
from a3gnn.errors import UsageError
from a3gnn.hybrid.assignment import trainer_kinds
from a3gnn.training.adapting.stage_times import TrainerKind


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
        _positive(self, "flops_per_s", "load_bytes_per_s", "sampled_edges_per_s", "memory_bytes_per_s")
        real_number("launch_s", self.launch_s, "second")
        real_number("thread_loss", self.thread_loss, "per thread")

    def speed(self, threads: int) -> float:
        """Returns the speed of `threads` threads, relative to one thread."""
        return threads / (1 + self.thread_loss * max(threads - 1, 0))


@dataclass(frozen=True, slots=True)
class SimulatedAccelerator:
    """One accelerator behind its link.

    Attributes:
        flops_per_s: Multiplications and additions per second.
        memory_bytes_per_s: Bandwidth of its memory.
        memory_bytes: Size of its memory.
        link_bytes_per_s: Bandwidth of its link to the host.
        link_latency_s: Seconds before the first byte of a copy arrives.
        launch_s: Seconds to start one kernel.
        sampled_edges_per_s: Edges that it samples per second; 0 if it can't.
        samples_beside: Whether sampling has circuits of its own (an FPGA), or takes the device's time (a GPU).
        pipelined: Whether aggregation streams into the update (an FPGA). Each operation then costs the slower of both,
            intermediate results stay on the chip, and `flush_s` is added.
        flush_s: Seconds to drain the pipeline of kernels after each layer.
        half_rows: Rows at which a matrix product reaches half of its peak speed.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    memory_bytes: float
    link_bytes_per_s: float
    link_latency_s: float = 1e-5
    launch_s: float = 1e-5
    sampled_edges_per_s: float = 0.0
    samples_beside: bool = False
    pipelined: bool = False
    flush_s: float = 0.0
    half_rows: float = 64.0

    def __post_init__(self) -> None:
        _positive(self, "flops_per_s", "memory_bytes_per_s", "memory_bytes", "link_bytes_per_s")
        for name in ("link_latency_s", "launch_s", "flush_s"):
            real_number(name, getattr(self, name), "second")
        real_number("sampled_edges_per_s", self.sampled_edges_per_s, "edge per second")
        real_number("half_rows", self.half_rows, "row")


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


def _positive(owner: object, *names: str) -> None:
    for name in names:
        positive_number(name, getattr(owner, name), "number")


#: The table's peak performance and memory bandwidth, links of 16 GB/s; launches and flushes are guesses.
U250 = SimulatedAccelerator(0.6e12, 77e9, 64e9, 16e9, launch_s=5e-5, samples_beside=True, pipelined=True, flush_s=5e-5)
A5000 = SimulatedAccelerator(27.8e12, 768e9, 24e9, 16e9, launch_s=1e-5)
ACCELERATORS = {"u250": U250, "a5000": A5000}
