"""`PerformanceModel`: predicts seconds and MTEPS of an iteration (HyScale-GNN, Eqs. 5 to 13).

Also contains its inputs, the speeds of a platform and the shape of a model, and the search for the fastest division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from a3gnn import layer_cost
from a3gnn.errors import UsageError, unknown_name
from a3gnn.hardware import Hardware
from a3gnn.hybrid.assignment import Assignment, divide, trainer_kinds
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.hybrid.stage_times import StageTimes, TrainerKind
from a3gnn.nvtps import mteps
from a3gnn.sampling.counts import CountCurve, Counts

#: Returns the seconds of sampling a number of seeds on a number of threads.
ProcessorSampling: TypeAlias = Callable[[int, int], float]
#: Returns the seconds of sampling a number of seeds on one accelerator.
AcceleratorSampling: TypeAlias = Callable[[int], float]

#: S: bytes of a float32.
_VALUE = 4.0


@dataclass(frozen=True, slots=True)
class AcceleratorSpeeds:
    """The speeds of one accelerator.

    Attributes:
        flops_per_s: Multiplications and additions of matrix products.
        memory_bytes_per_s: Bandwidth of its memory in aggregation.
        link_bytes_per_s: Bandwidth between it and the host.
        pipelined: Whether aggregation and update overlap. The operator of Eq. 10 is then the maximum, else the sum.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    pipelined: bool = False


@dataclass(frozen=True, slots=True)
class PlatformSpeeds:
    """A host and its accelerators; bandwidths are effective ones, as the probe measures them.

    Attributes:
        threads: Threads of the host.
        speedup: Returns the speed of a number of threads, relative to one thread.
        host_bytes_per_s: Bandwidth of the host's memory (BW_host).
        load_bytes_per_s: Bytes of feature rows that one thread loads.
        flops_per_s: Multiplications and additions of matrix products on one thread.
        memory_bytes_per_s: Bytes that aggregation reads on one thread.
        accelerators: The platform's accelerators.
        sampling: Measured seconds of sampling, as the paper has no equation for it.
        accelerator_sampling: Measured seconds of sampling on accelerators; None if they don't sample.
        sent_host_bytes: Bytes of the host's memory that a byte on a link takes. With a number, loading, trainers on
            processors and copies share the host's bandwidth, which bounds an iteration from below. None leaves this
            bound out, as the paper's equations do.
        fused_bytes_per_s: Bytes of feature rows that one thread sums, edge by edge, if loading sums the input layer's
            rows. None charges distinct rows, as if they were loaded.
        overhead_s: Seconds of an iteration outside all stages, after propagation: the weights' update, hand-overs.
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
        """The kind of each trainer: the processors, then the accelerators."""
        return trainer_kinds(len(self.accelerators))


def probed_speeds(hardware: Hardware, counts: CountCurve) -> PlatformSpeeds:
    """Returns the speeds that the probe measured on a real machine; all its devices count as equal to the first.

    The probe times arithmetic and traffic with all cores, so a thread gets its share of the result. As in the
    surrogate, sampling is estimated by one random read per sampled edge and node; measure it where possible. A copy to
    a device reads the host's memory. Rows that loading sums cost as much as in aggregation. The overhead is measured on
    a step of a handful of nodes.
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


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The shape of the trained model.

    Attributes:
        name: One of the built-in models.
        widths: Values per node: features, then the output of each layer.
        fused_gather: Whether loading sums the input layer's rows as it reads them. The trainers' first aggregation is
            then left out, and |V^1| rows (GraphSAGE: twice as wide) are sent instead of |V^0|.
        maps_first: Whether layers map before they aggregate if that is narrower, as a3gnn's own do. They then read
            min(f^(l-1), f^l) values per edge. False is Eq. 11, f^(l-1), as simulated platforms execute it.

    Raises:
        UsageError: There is no such model, or `fused_gather` is not possible with it.
    """

    name: str
    widths: tuple[int, ...]
    fused_gather: bool = False
    maps_first: bool = False

    def __post_init__(self) -> None:
        if self.name not in layer_cost.OPERATORS:
            raise unknown_name("model", self.name, layer_cost.OPERATORS)
        if self.fused_gather and not self.operators.input_widths:
            raise UsageError(f"fused_gather must be False for {self.name}, because it reads the rows themselves")

    @property
    def operators(self) -> layer_cost.Operators:
        """The operators of a layer."""
        return layer_cost.OPERATORS[self.name]

    @property
    def parameters(self) -> int:
        """Number of weights of all linear maps."""
        return layer_cost.model_parameters(self.operators, self.widths)

    def layers(self, counts: Counts) -> Iterator[layer_cost.LayerCost[float]]:
        """Yields the layers, the input layer first."""
        depth = len(self.widths) - 1
        for place, (sources, nodes, edges) in enumerate(counts.layers):
            wide, out = self.widths[place], self.widths[place + 1]
            yield layer_cost.LayerCost(wide, out, sources, nodes, edges, place == 0, place == depth - 1)


@dataclass(frozen=True, slots=True)
class PerformanceModel:
    """Predicts the time of an iteration.

    Attributes:
        shape: The shape of the trained model.
        counts: Nodes and edges in shares of a mini-batch, by number of seeds.
        speeds: The platform's speeds.
        schedule: The stages that overlap.
        passes: How often a step runs each layer: as counted in the surrogate, or as in Eq. 10.
    """

    shape: ModelShape
    counts: CountCurve
    speeds: PlatformSpeeds
    schedule: Schedule = TWO_STAGE_PREFETCHING
    passes: layer_cost.Passes = layer_cost.COUNTED_PASSES

    def predict(self, assignment: Assignment) -> StageTimes:
        """Returns the predicted seconds of each stage, and of the iteration (Eq. 6, and `host_memory`)."""
        threads, on_devices = assignment.threads, assignment.sampled_on_accelerators
        times = StageTimes(
            assignment.kinds,
            self.sampling(assignment.batch_size - on_devices, threads.sampling),
            self.accelerator_sampling(on_devices),
            self.loading(assignment.shares, threads.loading),
            self.transfer(assignment.shares),
            self.training(assignment.shares, threads.training),
            self.synchronization(assignment.shares),
        )
        return times.with_iteration(max(self.iteration(times), self.host_memory(assignment.shares)))

    def iteration(self, times: StageTimes) -> float:
        """Returns the seconds from one mini-batch to the next for stage times (Eq. 6), plus our overhead."""
        stages = times.by_stage
        stages["propagation"] += self.speeds.overhead_s
        return float(self.schedule.iteration_seconds(stages))

    def mteps(self, assignment: Assignment) -> float:
        """Returns millions of traversed edges per second (Eq. 5)."""
        edges = sum(self.counts.at(share).traversed_edges for share in assignment.shares)
        seconds = self.predict(assignment).iteration
        assert seconds is not None
        return mteps(edges, seconds)

    def sampling(self, seeds: int, threads: int) -> float:
        """Returns the measured seconds of sampling `seeds` seeds on the processors."""
        return self.speeds.sampling(seeds, threads) if seeds else 0.0

    def accelerator_sampling(self, seeds: int) -> float:
        """Returns the measured seconds of sampling `seeds` seeds on all accelerators.

        Raises:
            UsageError: The accelerators don't sample.
        """
        if not seeds:
            return 0.0
        if self.speeds.accelerator_sampling is None:
            raise UsageError(f"accelerators don't sample here, so their seeds must be 0, got {seeds}")
        return self.speeds.accelerator_sampling(max(divide(seeds, [1.0] * len(self.speeds.accelerators))))

    def loading(self, shares: tuple[int, ...], threads: int) -> float:
        """Returns T_load: the rows of all trainers, at the host's bandwidth or at the threads' speed (Eq. 7).

        If loading sums rows and `fused_bytes_per_s` is known, it reads one row per edge, and GraphSAGE's own rows too.
        """
        summed = self.speeds.fused_bytes_per_s
        if self.shape.fused_gather and summed is not None:
            first, own = (self.counts.at(share).layers[0] for share in shares), self.shape.operators.input_widths - 1
            read = sum(edges + own * nodes for _, nodes, edges in first)
            return read * self._row_bytes / (summed * self.speeds.speedup(threads))
        rows = sum(self.counts.at(share).input_nodes for share in shares)
        used = self.speeds.load_bytes_per_s * self.speeds.speedup(threads)
        return rows * self._row_bytes / min(self.speeds.host_bytes_per_s, used)

    def transfer(self, shares: tuple[int, ...]) -> tuple[float, ...]:
        """Returns T_trans of each trainer (Eq. 8); 0 for processors."""
        sent = [self._sent_bytes(self.counts.at(share)) for share in shares[1:]]
        links = (device.link_bytes_per_s for device in self.speeds.accelerators)
        return (0.0, *(size / link for size, link in zip(sent, links, strict=True)))

    def host_memory(self, shares: tuple[int, ...]) -> float:
        """Returns the seconds in which the host's memory moves all bytes of an iteration; ours, not the paper's.

        Returns 0 if `sent_host_bytes` is None.
        """
        if self.speeds.sent_host_bytes is None:
            return 0.0
        counts = [self.counts.at(share) for share in shares]
        loaded = sum(one.input_nodes for one in counts) * self._row_bytes
        sent = sum(self._sent_bytes(one) for one in counts[1:]) * self.speeds.sent_host_bytes
        aggregated = sum(self._read_bytes(layer, self.passes) for layer in self.shape.layers(counts[0]))
        return (loaded + sent + aggregated) / self.speeds.host_bytes_per_s

    def training(self, shares: tuple[int, ...], threads: int) -> tuple[float, ...]:
        """Returns the seconds of each trainer's forward and backward propagation (Eqs. 10 to 12)."""
        speeds, speedup = self.speeds, self.speeds.speedup(threads) if shares[0] else 1.0
        traffic = min(speeds.memory_bytes_per_s * speedup, speeds.host_bytes_per_s)
        here = self._trainer(self.counts.at(shares[0]), speeds.flops_per_s * speedup, traffic, False)
        pairs = zip(speeds.accelerators, shares[1:], strict=True)
        return here, *(
            self._trainer(self.counts.at(share), device.flops_per_s, device.memory_bytes_per_s, device.pipelined)
            for device, share in pairs
        )

    def synchronization(self, shares: tuple[int, ...]) -> float:
        """Returns T_sync: gradients to the host and back (Eq. 13); 0 with one trainer."""
        active = [device for device, share in zip(self.speeds.accelerators, shares[1:], strict=True) if share]
        if sum(share > 0 for share in shares) < 2:
            return 0.0
        return 2 * _VALUE * self.shape.parameters / min(device.link_bytes_per_s for device in active)

    def _trainer(self, counts: Counts, flops_per_s: float, bytes_per_s: float, pipelined: bool) -> float:
        ops, total = self.shape.operators, 0.0
        for passes in (self.passes.forward, self.passes.backward):
            for layer in self.shape.layers(counts):
                aggregate = self._read_bytes(layer, passes) / bytes_per_s
                operations = layer_cost.update_flops(layer, ops, layer.width_out, passes)
                operations += layer_cost.output_flops(layer, ops, passes)
                update = operations / flops_per_s
                total += max(aggregate, update) if pipelined else aggregate + update
        return total

    def _read_bytes(self, layer: layer_cost.LayerCost[float], passes: layer_cost.Passes) -> float:
        """Returns the bytes that a trainer's aggregation reads; none in the first layer if loading sums its rows."""
        if layer.first and self.shape.fused_gather:
            return 0.0
        ops = self.shape.operators
        width = layer_cost.message_width(layer, ops, maps_first=self.shape.maps_first)
        return layer_cost.aggregated_bytes(layer, ops, _VALUE * width, passes)

    @property
    def _row_bytes(self) -> float:
        return self.shape.widths[0] * _VALUE

    def _sent_bytes(self, counts: Counts) -> float:
        fused = self.shape.fused_gather
        rows = self.shape.operators.input_widths * counts.layers[0][1] if fused else counts.input_nodes
        return rows * self._row_bytes


class PredictedDivision(NamedTuple):
    """Shares and their predicted times."""

    shares: tuple[int, ...]  # seeds of each trainer on the processors, then of each accelerator
    times: StageTimes  # predicted stage times


def fastest_division(
    model: PerformanceModel,
    batch: int,
    threads: Sequence[int],
    *,
    ahead: int = 1,
    fits: Callable[[int], bool] = lambda share: True,
    parts: int = 64,
) -> PredictedDivision:
    """Returns the fastest division of `batch` seeds by `model`, which may leave processors or accelerators out.

    Trainers of one kind have equal shares. Among equally fast divisions, the one with the fewest seeds on processors
    wins.

    Args:
        model: The performance model of the platform.
        batch: Seeds of a mini-batch.
        threads: Threads of each trainer on the processors.
        ahead: Threads for sampling, and as many for loading.
        fits: Whether an accelerator can hold this many seeds.
        parts: The processors' shares are multiples of 1 / `parts` of the batch.
    """
    found = (
        _predicted(model, shares, threads, ahead) for shares in _divisions(model, batch, len(threads), fits, parts)
    )
    return min(found, key=lambda one: one.times.iteration or 0.0)


def _divisions(
    model: PerformanceModel, batch: int, processors: int, fits: Callable[[int], bool], parts: int
) -> Iterator[tuple[int, ...]]:
    accelerators = len(model.speeds.accelerators)
    for own in sorted({round(batch * part / parts) for part in range(parts + 1)}):
        there = divide(batch - own, [1.0] * accelerators)
        if own == batch or fits(max(there)):
            yield (*divide(own, [1.0] * processors), *there)


def _predicted(
    model: PerformanceModel, shares: tuple[int, ...], threads: Sequence[int], ahead: int
) -> PredictedDivision:
    here, there = shares[: len(threads)], shares[len(threads) :]
    nobody = (0,) * len(there)
    processors, accelerators = trainer_kinds(1)[:1] * len(here), trainer_kinds(len(there))[1:]
    times = StageTimes(
        processors + accelerators,
        model.sampling(sum(shares), ahead),
        0.0,
        model.loading(shares, ahead),
        (0.0,) * len(here) + model.transfer((0, *there))[1:],
        (
            *(model.training((share, *nobody), own)[0] for share, own in zip(here, threads, strict=True)),
            *model.training((0, *there), 1)[1:],
        ),
        model.synchronization((sum(here), *there)),
    )
    memory = model.host_memory((0, *there)) + sum(model.host_memory((share, *nobody)) for share in here)
    return PredictedDivision(shares, times.with_iteration(max(model.iteration(times), memory)))
