"""`SimulatedTraining`: hybrid training on a simulated platform, mini-batch by mini-batch on the virtual clock.

`StageWork` runs the four stages of one mini-batch as processes on the clock.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np

from a3gnn.checks import whole_number
from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.hybrid.assignment import Assignment, divide
from a3gnn.hybrid.devices.simulated_accelerator import (
    SimulatedAccelerator,
    SimulatedModel,
    on_accelerator,
    sampled_bytes,
)
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.hybrid.stage_times import PipelineStage, StageTimes
from a3gnn.nvtps import mteps
from a3gnn.sampling.counts import CountCurve, Counts
from a3gnn.units import format_size
from benchmarks.hybrid.clock import Bandwidth, ClockEvent, Process, Slots, VirtualClock
from benchmarks.hybrid.platform import (
    HostWork,
    SimulatedPlatform,
    loaded_bytes,
    on_processor,
    sampling_on_accelerator,
    sampling_on_processor,
)

#: Each stage, and the part of propagation that exchanges gradients.
MeasuredStage = Literal["sampling", "loading", "transfer", "propagation", "synchronization"]

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
            self.seconds.get(("synchronization", None), 0.0),
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
            yield from self._synchronization(batch)

    def _synchronization(self, batch: BatchInFlight) -> Process:
        """Gathers the gradients on the host, averages them, and sends the average back (Eq. 13's two copies)."""
        begin, size = self._clock.now, _VALUE * self._model.parameters
        active = [place for place, share in enumerate(batch.assignment.shares[1:]) if share]
        yield self._clock.all_of([self._sent("from", place, size) for place in active])
        load = self._platform.processor.load_bytes_per_s
        yield self._clock.flow(size * (len(active) + 1), load, {self._memory: 1.0})
        yield self._clock.all_of([self._sent("to", place, size) for place in active])
        self._measure("synchronization", batch, None, begin)

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


#: Mini-batches that fill the pipeline, whose mean counts, and that drain it. A multiple of 2 and 3, because stages that
#: hinder each other may take turns over several mini-batches.
_FILL, _COUNTED, _DRAIN = 6, 6, 4


class DividesWork(Protocol):
    """Decides the division of mini-batches."""

    def assignment(self) -> Assignment | None:
        """Returns the division of the next mini-batch to sample; None ends the run."""

    def measured(self, assignment: Assignment, times: StageTimes) -> None:
        """Receives the stage times of a mini-batch with this division, once it is trained."""


class Static:
    """One division for a number of mini-batches."""

    def __init__(self, assignment: Assignment, batches: int) -> None:
        self._assignment, self._left = assignment, batches

    def assignment(self) -> Assignment | None:
        """Returns the division, until the mini-batches are used up."""
        self._left -= 1
        return self._assignment if self._left >= 0 else None

    def measured(self, assignment: Assignment, times: StageTimes) -> None:
        """Changes nothing."""


@dataclass(frozen=True, slots=True)
class SimulatedTraining:
    """A training run on a simulated platform.

    Only time is computed. To train a model in a simulated accelerator's place, train in `DividesWork.measured`: it is
    called once per mini-batch, in order, with the mini-batch's division.

    Attributes:
        platform: The host and its accelerators.
        model: The model's shape.
        counts: Nodes and edges in shares of a mini-batch, by number of seeds.
        schedule: The stages that overlap.
        seed: Seed of the jitter.
    """

    platform: SimulatedPlatform
    model: SimulatedModel
    counts: CountCurve
    schedule: Schedule = TWO_STAGE_PREFETCHING
    seed: int = 0

    def run(self, division: DividesWork) -> Trace:
        """Trains until `division` ends the run.

        Raises:
            UsageError: An assignment does not fit the platform.
            MemoryLimitError: An accelerator can't hold its share.
        """
        pipeline = _Pipeline(self, division)
        return pipeline.run()

    def check(self, assignment: Assignment) -> None:
        """Checks that `assignment` can run here.

        Raises:
            UsageError: It has other trainers, has more threads, or lets accelerators sample that can't.
            MemoryLimitError: An accelerator can't hold its share.
        """
        platform = self.platform
        if assignment.kinds != platform.kinds:
            raise UsageError(f"trainers must be {platform.kinds}, got {assignment.kinds}")
        if assignment.threads.total > platform.processor.threads:
            raise UsageError(f"{platform.processor.threads} threads must suffice, got {assignment.threads}")
        if assignment.sampled_on_accelerators and not platform.can_sample:
            raise UsageError("sampled_on_accelerators must be 0 where an accelerator has sampled_edges_per_s of 0")
        check_memory(platform, self.model, self.counts, self.schedule, assignment)

    def seconds_per_batch(self, assignment: Assignment) -> float:
        """Returns the seconds from one mini-batch to the next under one division, while the pipeline is full."""
        return self.run(Static(assignment, _FILL + _COUNTED + _DRAIN)).seconds_per_batch(_FILL, _DRAIN)


class _Pipeline:
    """One run: a process for each group of stages, and queues of bounded depth between them."""

    def __init__(self, training: SimulatedTraining, division: DividesWork) -> None:
        self._training, self._division = training, division
        self._clock = VirtualClock()
        self._trace = Trace()
        self._work = StageWork(
            self._clock, training.platform, training.model, training.counts, training.seed, self._trace
        )
        depths = [depth for depth in training.schedule.depths if depth]
        self._room = [Slots(depth) for depth in depths]
        self._ready = [Slots(0) for _ in depths]
        self._queues: list[deque[BatchInFlight | None]] = [deque() for _ in depths]
        self._checked: Assignment | None = None
        self._begun = 0

    def run(self) -> Trace:
        groups = self._training.schedule.groups
        for place, stages in enumerate(groups):
            self._clock.start(self._serve(place, stages, place == len(groups) - 1))
        self._clock.run()
        return self._trace

    def _serve(self, place: int, stages: tuple[PipelineStage, ...], last: bool) -> Process:
        """Takes mini-batches from the group before, works on them, and passes them on."""
        while True:
            if not last:
                yield self._room[place].take()
            if place:
                yield self._ready[place - 1].take()
                batch = self._queues[place - 1].popleft()
                self._room[place - 1].give()
            else:
                batch = self._next()
            if batch is not None:
                for stage in stages:
                    yield self._clock.start(self._work.of(stage, batch))
                if last:
                    self._finish(batch)
            if not last:
                self._queues[place].append(batch)
                self._ready[place].give()
            if batch is None:
                return

    def _next(self) -> BatchInFlight | None:
        assignment = self._division.assignment()
        if assignment is None:
            return None
        if assignment != self._checked:
            self._training.check(assignment)
            self._checked = assignment
        self._begun += 1
        return BatchInFlight(self._begun - 1, assignment)

    def _finish(self, batch: BatchInFlight) -> None:
        ends = self._trace.ends
        ends.append(self._clock.now)
        self._trace.edges.append(sum(counts.traversed_edges for counts in self._work.counts(batch)))
        times = batch.times(ends[-1] - ends[-2] if len(ends) > 1 else None)
        self._trace.times.append(times)
        self._trace.assignments.append(batch.assignment)
        self._division.measured(batch.assignment, times)


def check_memory(
    platform: SimulatedPlatform, model: SimulatedModel, counts: CountCurve, schedule: Schedule, assignment: Assignment
) -> None:
    """Checks that every accelerator holds its share.

    Raises:
        MemoryLimitError: A share does not fit.
    """
    for place, (device, seeds) in enumerate(zip(platform.accelerators, assignment.shares[1:], strict=True)):
        needed = needed_bytes(model, counts, schedule, seeds) if seeds else 0.0
        if needed > device.memory_bytes:
            fit = most_seeds(device, model, counts, schedule)
            raise MemoryLimitError(
                f"accelerator {place} has {format_size(device.memory_bytes)} memory, and {seeds} seeds need "
                f"{format_size(needed)}; {fit} seeds fit"
            )


def most_seeds(device: SimulatedAccelerator, model: SimulatedModel, counts: CountCurve, schedule: Schedule) -> int:
    """Returns the largest share that fits into `device`, up to the largest counted one."""
    low, high = 0, counts.seeds[-1]
    while low < high:
        middle = (low + high + 1) // 2
        fits = needed_bytes(model, counts, schedule, middle) <= device.memory_bytes
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def needed_bytes(model: SimulatedModel, counts: CountCurve, schedule: Schedule, seeds: int) -> float:
    """Returns the bytes of an accelerator that trains `seeds` seeds, with the mini-batches that wait in its memory."""
    found = counts.at(seeds)
    return model.kept_bytes(found) + schedule.transferred * model.sent_bytes(found)
