"""The four stages of one mini-batch as processes on the virtual clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from a3gnn.checks import whole_number
from a3gnn.hybrid.assignment import Assignment, divide
from a3gnn.hybrid.devices.simulated_accelerator import SimulatedModel, on_accelerator, sampled_bytes
from a3gnn.nvtps import mteps
from a3gnn.sampling.counts import CountCurve, Counts
from a3gnn.training.adapting.stage_times import PipelineStage, StageTimes
from benchmarks.hybrid.clock import Bandwidth, ClockEvent, Process, VirtualClock
from benchmarks.hybrid.platform import (
    HostWork,
    SimulatedPlatform,
    loaded_bytes,
    on_processor,
    sampling_on_accelerator,
    sampling_on_processor,
)

#: Each stage, and the part of propagation that exchanges gradients.
MeasuredStage = Literal["sampling", "loading", "transfer", "propagation", "synchronisation"]

#: Bytes of a gradient.
_VALUE = 4.0


class SimulatedSpan(NamedTuple):
    """Work of one stage for one mini-batch.

    Attributes:
        stage: The stage.
        batch: Number of the mini-batch, from 0.
        trainer: Place of the trainer that the work is on or for; None for all trainers.
        begin: Seconds on the virtual clock.
        end: Seconds on the virtual clock.
    """

    stage: MeasuredStage
    batch: int
    trainer: int | None
    begin: float
    end: float


@dataclass(slots=True)
class Trace:
    """A run on the virtual clock.

    Attributes:
        spans: The spans, in the order in which they ended.
        ends: Seconds at which each mini-batch was trained.
        edges: Edges that all trainers traversed for each mini-batch, as in Eq. 5.
        times: Stage times of each mini-batch.
        assignments: Assignment of each mini-batch.
    """

    spans: list[SimulatedSpan] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    times: list[StageTimes] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)

    def seconds_per_batch(self, skipped: int, drained: int = 0) -> float:
        """Returns the seconds from one mini-batch to the next while the pipeline is full.

        Args:
            skipped: Mini-batches at the start, which fill the pipeline; at least 1.
            drained: Mini-batches at the end, which share the pipeline with no later one.

        Raises:
            UsageError: `skipped` is 0, or no mini-batch is left.
        """
        ends = self._full(skipped, drained)
        return (ends[-1] - ends[0]) / (len(ends) - 1)

    def mteps(self, skipped: int, drained: int = 0) -> float:
        """Returns millions of traversed edges per second (Eq. 5); takes the arguments of `seconds_per_batch`."""
        ends = self._full(skipped, drained)
        return mteps(sum(self.edges[skipped : skipped + len(ends) - 1]), ends[-1] - ends[0])

    def _full(self, skipped: int, drained: int) -> list[float]:
        """Returns the ends of the mini-batches that count, preceded by the end of the last skipped one."""
        whole_number("skipped", skipped, 1, "the first one fills the pipeline")
        whole_number("drained", drained, 0)
        whole_number("mini-batches", len(self.ends), skipped + drained + 1, f"{skipped} and {drained} do not count")
        return self.ends[skipped - 1 : len(self.ends) - drained]


@dataclass(slots=True, eq=False)
class BatchInFlight:
    """A mini-batch in the pipeline.

    Attributes:
        number: Its number, from 0.
        assignment: Its division, fixed when it was sampled.
        seconds: Measured seconds so far, by stage and trainer; the trainer None stands for all trainers.
    """

    number: int
    assignment: Assignment
    seconds: dict[tuple[str, int | None], float] = field(default_factory=dict)

    def times(self, iteration: float | None) -> StageTimes:
        """Returns the measured stage times, with `iteration`, the seconds since the mini-batch before was trained."""
        kinds = self.assignment.kinds

        def of(stage: str) -> tuple[float, ...]:
            return tuple(self.seconds.get((stage, place), 0.0) for place in range(len(kinds)))

        sampling = of("sampling")
        return StageTimes(
            kinds,
            sampling[0],
            max(sampling[1:], default=0.0),
            self.seconds[("loading", None)],
            of("transfer"),
            of("propagation"),
            self.seconds.get(("synchronisation", None), 0.0),
            iteration,
        )


class StageWork:
    """Does a stage's work for a mini-batch: takes time on the platform's resources, and measures it.

    Args:
        clock: The virtual clock.
        platform: The platform with the resources.
        model: The model's shape.
        counts: Nodes and edges in shares of a mini-batch, by number of seeds.
        seed: Seed of the jitter.
        trace: Receives the spans.
    """

    def __init__(
        self,
        clock: VirtualClock,
        platform: SimulatedPlatform,
        model: SimulatedModel,
        counts: CountCurve,
        seed: int,
        trace: Trace,
    ) -> None:
        self._clock, self._platform, self._model, self._counts, self._trace = clock, platform, model, counts, trace
        self._random = np.random.default_rng(seed)
        self._memory = Bandwidth("host memory", platform.processor.memory_bytes_per_s)
        devices = range(len(platform.accelerators))
        #: Full duplex: one link to each accelerator, and one from it.
        self._links = {
            (place, way): Bandwidth(f"link {way} accelerator {place}", platform.accelerators[place].link_bytes_per_s)
            for place in devices
            for way in ("to", "from")
        }
        #: A device's own time: one second per second.
        self._devices = [Bandwidth(f"accelerator {place}", 1.0) for place in devices]

        self._stages = {
            "sampling": self._sampling,
            "loading": self._loading,
            "transfer": self._transfer,
            "propagation": self._propagation,
        }

    def of(self, stage: PipelineStage, batch: BatchInFlight) -> Process:
        """Returns the process of `stage` for `batch`."""
        return self._stages[stage](batch)

    def counts(self, batch: BatchInFlight) -> list[Counts]:
        """Returns the counts of each trainer's share of `batch`."""
        return [self._counts.at(share) for share in batch.assignment.shares]

    def _sampling(self, batch: BatchInFlight) -> Process:
        assignment, platform = batch.assignment, self._platform
        on_devices = assignment.sampled_on_accelerators
        here = assignment.batch_size - on_devices
        parts = []
        if here:
            alone = sampling_on_processor(platform.processor, assignment.threads.sampling, self._counts.at(here))
            seconds = self._jittered(alone)
            parts.append(self._timed("sampling", batch, 0, self._clock.after(seconds)))
        if on_devices:
            shares = divide(on_devices, [1.0] * len(platform.accelerators))
            parts += [self._on_device(batch, place, share) for place, share in enumerate(shares) if share]
        yield self._clock.all_of(self._clock.start(part) for part in parts)

    def _on_device(self, batch: BatchInFlight, place: int, seeds: int) -> Process:
        """Samples on an accelerator, and sends the samples to the host for loading."""
        device, counts = self._platform.accelerators[place], self._counts.at(seeds)
        seconds = self._jittered(sampling_on_accelerator(device, counts))
        beside = self._clock.after(seconds) if device.samples_beside else self._device_time(place, seconds)
        begin = self._clock.now
        yield beside
        yield self._sent("from", place, sampled_bytes(counts))
        self._measure("sampling", batch, place + 1, begin)

    def _loading(self, batch: BatchInFlight) -> Process:
        processor = self._platform.processor
        size = sum(loaded_bytes(self._model, counts) for counts in self.counts(batch))
        cap = processor.speed(batch.assignment.threads.loading) * processor.load_bytes_per_s
        begin = self._clock.now
        yield self._clock.after(processor.launch_s)
        yield self._clock.flow(size, cap / self._jittered(1.0), {self._memory: 1.0})
        self._measure("loading", batch, None, begin)

    def _transfer(self, batch: BatchInFlight) -> Process:
        parts = []
        for place, counts in enumerate(self.counts(batch)[1:]):
            if counts.input_nodes:
                done = self._sent("to", place, self._model.sent_bytes(counts))
                parts.append(self._timed("transfer", batch, place + 1, done))
        yield self._clock.all_of(self._clock.start(part) for part in parts)

    def _propagation(self, batch: BatchInFlight) -> Process:
        shares, threads = batch.assignment.shares, batch.assignment.threads.training
        parts = []
        if shares[0]:
            work = self._on_processor(threads, shares[0])
            cap = work.moved_bytes / self._jittered(work.seconds)
            done = self._clock.flow(work.moved_bytes, cap, {self._memory: 1.0})
            parts.append(self._timed("propagation", batch, 0, done))
        for place, share in enumerate(shares[1:]):
            if share:
                done = self._device_time(place, self._jittered(self._on_accelerator(place, share)))
                parts.append(self._timed("propagation", batch, place + 1, done))
        yield self._clock.all_of(self._clock.start(part) for part in parts)
        if len(parts) > 1:
            yield from self._synchronisation(batch)

    def _synchronisation(self, batch: BatchInFlight) -> Process:
        """Gathers the gradients on the host, averages them, and sends the average back (Eq. 13's two copies)."""
        begin, size = self._clock.now, _VALUE * self._model.parameters
        active = [place for place, share in enumerate(batch.assignment.shares[1:]) if share]
        yield self._clock.all_of([self._sent("from", place, size) for place in active])
        load = self._platform.processor.load_bytes_per_s
        yield self._clock.flow(size * (len(active) + 1), load, {self._memory: 1.0})
        yield self._clock.all_of([self._sent("to", place, size) for place in active])
        self._measure("synchronisation", batch, None, begin)

    def _sent(self, way: Literal["to", "from"], place: int, size: float) -> ClockEvent:
        """Returns the event at which `size` bytes have passed the link to or from accelerator `place`."""
        device = self._platform.accelerators[place]
        bandwidth = device.link_bytes_per_s
        effective = size / (device.link_latency_s + size / bandwidth)
        uses = {self._links[place, way]: 1.0, self._memory: self._platform.sent_host_bytes}
        return self._clock.flow(size, effective / self._jittered(1.0), uses)

    def _device_time(self, place: int, seconds: float) -> ClockEvent:
        """Returns the event at which accelerator `place` has worked for `seconds`; two tasks at once share its time."""
        return self._clock.flow(seconds, 1.0, {self._devices[place]: 1.0})

    def _jittered(self, seconds: float) -> float:
        sigma = self._platform.jitter
        return seconds * math.exp(sigma * self._random.standard_normal() - sigma**2 / 2) if sigma else seconds

    def _timed(self, stage: PipelineStage, batch: BatchInFlight, trainer: int | None, done: ClockEvent) -> Process:
        begin = self._clock.now
        yield done
        self._measure(stage, batch, trainer, begin)

    def _measure(self, stage: MeasuredStage, batch: BatchInFlight, trainer: int | None, begin: float) -> None:
        batch.seconds[stage, trainer] = self._clock.now - begin
        self._trace.spans.append(SimulatedSpan(stage, batch.number, trainer, begin, self._clock.now))

    def _on_processor(self, threads: int, share: int) -> HostWork:
        return on_processor(self._platform.processor, threads, self._model, self._counts.at(share))

    def _on_accelerator(self, place: int, share: int) -> float:
        return on_accelerator(self._platform.accelerators[place], self._model, self._counts.at(share))
