"""`SimulatedTraining`: hybrid training on a simulated platform, mini-batch by mini-batch on the virtual clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from a3gnn.errors import MemoryLimitError, UsageError
from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.devices.simulated_accelerator import SimulatedAccelerator, SimulatedModel
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.sampling.counts import CountCurve
from a3gnn.training.adapting.stage_times import PipelineStage, StageTimes
from a3gnn.units import format_size
from benchmarks.hybrid.clock import Process, Slots, VirtualClock
from benchmarks.hybrid.platform import SimulatedPlatform
from benchmarks.hybrid.stage_work import BatchInFlight, StageWork, Trace

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
