"""Throughput from timed mini-batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from statistics import fmean
from typing import Generic, TypeVar

from a3gnn.profiling.trial.request import TrialPlan

Step = TypeVar("Step")


@dataclass(frozen=True, slots=True)
class Timing(Generic[Step]):
    """Seconds of the mini-batches that were timed, from asking for each to its being trained on.

    Attributes:
        first: The first ones of an epoch and, where the graph is partitioned, of each part: they wait for the pipeline
            to fill and for the part's features.
        other: All others.
        endings: From the last mini-batch of a whole epoch to the epoch's end.
        starts_per_epoch: First mini-batches in an epoch.
        steps: What was yielded after each mini-batch.
    """

    first: list[float]
    other: list[float]
    endings: list[float]
    starts_per_epoch: int
    steps: list[Step]

    @property
    def batch_s(self) -> float:
        """Mean seconds of a mini-batch without what is paid once an epoch or part."""
        return fmean(self.other if self._first_are_slower else [*self.first, *self.other])

    @property
    def epoch_overhead_s(self) -> float:
        """Mean seconds of an epoch beside its mini-batches: the first ones' excess, and the ending.

        Where all mini-batches are first ones the excess can't be told from the work, and counts as work.
        """
        ending = fmean(self.endings) if self.endings else 0.0
        excess = fmean(self.first) - self.batch_s if self._first_are_slower else 0.0
        return self.starts_per_epoch * excess + ending

    def throughput(self, batches_per_epoch: int) -> float:
        """Returns epochs per second: of the timed epochs if they are whole, extrapolated from their batches if not."""
        return 1.0 / (self.batch_s * batches_per_epoch + self.epoch_overhead_s)

    @property
    def _first_are_slower(self) -> bool:
        return bool(self.first and self.other) and fmean(self.first) > fmean(self.other)


def time_steps(
    steps: Callable[[int], Generator[Step, None, None]],
    starts: Callable[[int], Collection[int]],
    batches_per_epoch: int,
    plan: TrialPlan,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing[Step]:
    """Returns the timing of whole mini-batches after a warm-up.

    Timing begins with an epoch, and ends with the mini-batch after which both `plan.timed_seconds` and enough
    mini-batches have passed.

    Args:
        steps: Trains the epoch of that number and yields after each mini-batch; it may be left early.
        starts: Indices of the mini-batches that begin the epoch of that number, or a part in it.
        batches_per_epoch: Mini-batches of an epoch.
        plan: How long to warm up and to time.
        clock: Seconds from any origin.
    """
    numbers = count()
    _warm_up(steps, numbers, plan.warmup_batches)
    timing: Timing[Step] = Timing([], [], [], len(starts(0)), [])
    begun = clock()
    while len(timing.steps) < plan.least_timed_batches or clock() - begun < plan.timed_seconds:
        epoch = next(numbers)
        firsts = starts(epoch)
        last = clock()
        with closing(steps(epoch)) as running:
            for index, step in enumerate(running):
                now = clock()
                (timing.first if index in firsts else timing.other).append(now - last)
                timing.steps.append(step)
                enough = len(timing.steps) >= plan.least_timed_batches and now - begun >= plan.timed_seconds
                if enough and index + 1 < batches_per_epoch:  # the last one of an epoch is followed by its ending
                    break
                last = now
            else:
                timing.endings.append(clock() - last)
    return timing


def _warm_up(steps: Callable[[int], Generator[Step, None, None]], numbers: count[int], batches: int) -> None:
    done = 0
    while done < batches:
        with closing(steps(next(numbers))) as running:
            for _ in running:
                done += 1
                if done == batches:
                    break
