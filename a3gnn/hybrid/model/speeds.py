"""The constants of the performance model: what a platform's parts do per second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from a3gnn.hardware import Hardware
from a3gnn.hybrid.assignment import trainer_kinds
from a3gnn.sampling.counts import CountCurve
from a3gnn.training.adapting.stage_times import TrainerKind

#: Seconds of sampling so many seeds, by so many threads.
ProcessorSampling: TypeAlias = Callable[[int, int], float]
#: Seconds of sampling so many seeds, on one accelerator.
AcceleratorSampling: TypeAlias = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class AcceleratorSpeeds:
    """One accelerator.

    Attributes:
        flops_per_s: Multiplications and additions of matrix products.
        memory_bytes_per_s: That aggregation reads out of its memory.
        link_bytes_per_s: Between it and the host.
        pipelined: Whether aggregation and update overlap: the operator of Eq. 10 is then the maximum, else the sum.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    pipelined: bool = False


@dataclass(frozen=True, slots=True)
class PlatformSpeeds:
    """A host and its accelerators; bandwidths are effective ones, as the probe measures them.

    Attributes:
        threads: Of the host.
        speedup: How many times as fast as one thread so many are.
        host_bytes_per_s: Bandwidth of the host's memory (BW_host).
        load_bytes_per_s: Feature rows that one thread loads.
        flops_per_s: Multiplications and additions of matrix products, one thread.
        memory_bytes_per_s: That aggregation reads, one thread.
        accelerators: Those of the platform.
        sampling: Measured: the paper has no equation for it.
        accelerator_sampling: Likewise; None where accelerators don't sample.
        sent_host_bytes: Bytes of the host's memory that a byte on a link takes. With a number, loading, trainers on
            processors and copies share the host's bandwidth, which bounds an iteration from below; None leaves that
            out, as the paper's equations do.
        fused_bytes_per_s: Feature rows that one thread adds up, edge by edge, where loading sums the input layer's;
            None charges distinct rows as they are loaded.
        overhead_s: Seconds of an iteration in no stage, after propagation: the update of the weights, hand-overs.
    """

    threads: int
    speedup: Callable[[int], float]
    host_bytes_per_s: float
    load_bytes_per_s: float
    flops_per_s: float
    memory_bytes_per_s: float
    accelerators: tuple[AcceleratorSpeeds, ...]
    sampling: ProcessorSampling
    accelerator_sampling: AcceleratorSampling | None = None
    sent_host_bytes: float | None = None
    fused_bytes_per_s: float | None = None
    overhead_s: float = 0.0

    @property
    def kinds(self) -> tuple[TrainerKind, ...]:
        """What each trainer runs on: the processors, then the accelerators."""
        return trainer_kinds(len(self.accelerators))


def probed_speeds(hardware: Hardware, counts: CountCurve) -> PlatformSpeeds:
    """Returns what the probe knows of a real machine: all its devices are taken to be like the first.

    The probe times arithmetic and traffic with all cores: a thread has its part of them. Sampling is estimated, as in
    the surrogate, by one random read per sampled edge and node; measure it where that can be done. A copy to a device
    reads the host's memory. Rows that loading sums are aggregated like any; the overhead is that of a step on a handful
    of nodes.
    """
    profile = hardware.profile
    whole = profile.copy_speedup(hardware.num_cores)
    device = AcceleratorSpeeds(
        profile.device_gemm_flops_per_s, profile.device_traffic_bytes_per_s, profile.host_to_device_bytes_per_s
    )

    def sampling(seeds: int, threads: int) -> float:
        found = counts.at(seeds)
        reads = sum(found.edges) + found.input_nodes
        return reads / (profile.random_reads_per_s * profile.copy_speedup(threads))

    return PlatformSpeeds(
        threads=hardware.num_cores,
        speedup=profile.copy_speedup,
        host_bytes_per_s=hardware.host_bytes_per_s,
        load_bytes_per_s=profile.copy_bytes_per_s,
        flops_per_s=profile.gemm_flops_per_s / whole,
        memory_bytes_per_s=profile.spmm_bytes_per_s / whole,
        accelerators=(device,) * hardware.num_devices,
        sampling=sampling,
        sent_host_bytes=1.0,
        fused_bytes_per_s=profile.spmm_bytes_per_s / whole,
        overhead_s=profile.batch_overhead_s,
    )
