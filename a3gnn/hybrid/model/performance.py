"""`PerformanceModel`: seconds and MTEPS of an iteration (HyScale-GNN, Eqs. 5 to 13)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from a3gnn.errors import UsageError, unknown_name
from a3gnn.hybrid.assignment import Assignment, divide
from a3gnn.hybrid.model.speeds import PlatformSpeeds
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.layer_cost import (
    COUNTED_PASSES,
    OPERATORS,
    Layer,
    Operators,
    Passes,
    aggregated_bytes,
    map_parameters,
    message_width,
    output_flops,
    update_flops,
)
from a3gnn.nvtps import mteps
from a3gnn.sampling.counts import CountCurve, Counts
from a3gnn.training.adapting.stage_times import StageTimes

#: S: bytes of a float32.
_VALUE = 4.0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The model that is trained.

    Attributes:
        name: One of the built-in models.
        widths: Values per node: features, then the output of each layer.
        fused_gather: Whether loading sums the input layer's rows as it reads them: then the trainers' first aggregation
            is left out, and |V^1| rows are sent (GraphSAGE: twice as wide) in place of |V^0|.
        maps_first: Whether layers map before they aggregate where that is narrower, as a3gnn's own do: then
            min(f^(l-1), f^l) values per edge are read. False is Eq. 11, f^(l-1), which simulated platforms execute.

    Raises:
        UsageError: There is no such model, or it can't be fused.
    """

    name: str
    widths: tuple[int, ...]
    fused_gather: bool = False
    maps_first: bool = False

    def __post_init__(self) -> None:
        if self.name not in OPERATORS:
            raise unknown_name("model", self.name, OPERATORS)
        if self.fused_gather and not self.operators.input_widths:
            raise UsageError(f"fused_gather must be False for {self.name}: it reads the rows themselves")

    @property
    def operators(self) -> Operators:
        """What a layer computes."""
        return OPERATORS[self.name]

    @property
    def parameters(self) -> int:
        """Number of weights of all linear maps."""
        pairs = zip(self.widths, self.widths[1:], strict=False)
        return sum(map_parameters(self.operators, wide, out) for wide, out in pairs)

    def layers(self, counts: Counts) -> Iterator[Layer[float]]:
        """Yields the layers, the input layer first."""
        depth = len(self.widths) - 1
        for place, (sources, nodes, edges) in enumerate(counts.layers):
            wide, out = self.widths[place], self.widths[place + 1]
            yield Layer(wide, out, sources, nodes, edges, place == 0, place == depth - 1)


@dataclass(frozen=True, slots=True)
class PerformanceModel:
    """Predicts what an iteration takes.

    Attributes:
        shape: The model that is trained.
        counts: What shares of a mini-batch hold.
        speeds: Of the platform.
        schedule: Which stages overlap.
        passes: How often a step runs each layer: what is counted, as in the surrogate, or Eq. 10's.
    """

    shape: ModelShape
    counts: CountCurve
    speeds: PlatformSpeeds
    schedule: Schedule = TWO_STAGE_PREFETCHING
    passes: Passes = COUNTED_PASSES

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
            self.synchronisation(assignment.shares),
        )
        return times.with_iteration(max(self.iteration(times), self.host_memory(assignment.shares)))

    def iteration(self, times: StageTimes) -> float:
        """Returns the seconds from one mini-batch to the next where stages take `times` (Eq. 6), and our overhead."""
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
            UsageError: They don't sample.
        """
        if not seeds:
            return 0.0
        if self.speeds.accelerator_sampling is None:
            raise UsageError(f"accelerators don't sample here, and {seeds} seeds are given to them")
        return self.speeds.accelerator_sampling(max(divide(seeds, [1.0] * len(self.speeds.accelerators))))

    def loading(self, shares: tuple[int, ...], threads: int) -> float:
        """Returns T_load: the rows of all trainers, by the host's bandwidth or what the threads can use (Eq. 7).

        Where loading sums rows and it is known how fast, one row is read per edge, and GraphSAGE's own beside them.
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
        """Returns T_trans of each trainer (Eq. 8); 0 of processors."""
        sent = [self._sent_bytes(self.counts.at(share)) for share in shares[1:]]
        links = (device.link_bytes_per_s for device in self.speeds.accelerators)
        return (0.0, *(size / link for size, link in zip(sent, links, strict=True)))

    def host_memory(self, shares: tuple[int, ...]) -> float:
        """Returns the seconds in which the host's memory moves all that an iteration needs; ours, not the paper's.

        That is 0 where `sent_host_bytes` is None.
        """
        if self.speeds.sent_host_bytes is None:
            return 0.0
        counts = [self.counts.at(share) for share in shares]
        loaded = sum(one.input_nodes for one in counts) * self._row_bytes
        sent = sum(self._sent_bytes(one) for one in counts[1:]) * self.speeds.sent_host_bytes
        return (loaded + sent + self._aggregated(counts[0])) / self.speeds.host_bytes_per_s

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

    def synchronisation(self, shares: tuple[int, ...]) -> float:
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
                operations = update_flops(layer, ops, layer.width_out, passes) + output_flops(layer, ops, passes)
                update = operations / flops_per_s
                total += max(aggregate, update) if pipelined else aggregate + update
        return total

    def _aggregated(self, counts: Counts) -> float:
        return sum(self._read_bytes(layer, self.passes) for layer in self.shape.layers(counts))

    def _read_bytes(self, layer: Layer[float], passes: Passes) -> float:
        """Returns the bytes that a trainer's aggregation reads: none in the first layer if loading sums its rows."""
        if layer.first and self.shape.fused_gather:
            return 0.0
        ops = self.shape.operators
        width = message_width(layer, ops, maps_first=self.shape.maps_first)
        return aggregated_bytes(layer, ops, _VALUE * width, passes)

    @property
    def _row_bytes(self) -> float:
        return self.shape.widths[0] * _VALUE

    def _sent_bytes(self, counts: Counts) -> float:
        fused = self.shape.fused_gather
        rows = self.shape.operators.input_widths * counts.layers[0][1] if fused else counts.input_nodes
        return rows * self._row_bytes
