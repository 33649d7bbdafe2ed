"""`Timing`: throughput from timed windows of mini-batches. Windows disturbed by other work are timed again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from statistics import fmean, median
from typing import Generic, NamedTuple, Self, TypeVar

from a3gnn.launch import QUICK
from a3gnn.profiling.request import TrialPlan
from a3gnn.threads.core_time import stretch

TimedStep = TypeVar("TimedStep")

#: Most windows timed beyond the plan's because of disturbances: by default, a trial on a machine that is never
#: quiet then takes twice as long.
MOST_REPEATS = 0 if QUICK else 3
#: Other processes disturb a window in which they take more than this share of the machine's cores,
_DISTURBING_SHARE = 0.1
#: and more than these core-seconds: five ticks, because the kernel counts in ticks of a hundredth on each core.
_LEAST_DISTURBING_S = 0.05
#: Stolen time is subtracted from a window. Beyond this share of the cores that is too rough: it disturbs too, by the
#: definition in docs/architecture.md.
_DISTURBING_STOLEN_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Epochs(Generic[TimedStep]):
    """The epochs of a trainer.

    Attributes:
        steps: Trains the epoch of that number and yields after each mini-batch; it may be left early.
        starts: Indices of the mini-batches that begin an epoch or, in it, a part of the graph.
        batches: Mini-batches of an epoch.
    """

    steps: Callable[[int], Generator[TimedStep, None, None]]
    starts: Callable[[int], Collection[int]]
    batches: int


@dataclass(frozen=True, slots=True)
class Window(Generic[TimedStep]):
    """Seconds of timed mini-batches, each from its request to the end of its training step.

    The properties leave out time stolen by the hypervisor.

    Attributes:
        first: The first mini-batches of an epoch and, if the graph is partitioned, of each part. They wait for the
            pipeline to fill and for the part's features.
        other: All other mini-batches.
        endings: From the last mini-batch of a whole epoch to the epoch's end.
        starts_per_epoch: Number of first mini-batches in an epoch.
        steps: The values yielded after each mini-batch.
        stretch: Factor by which stolen time made everything slower (`stolen_time.stretch`).
    """

    first: list[float]
    other: list[float]
    endings: list[float]
    starts_per_epoch: int
    steps: list[TimedStep]
    stretch: float = 1.0

    @classmethod
    def timed(
        cls,
        epochs: Epochs[TimedStep],
        numbers: Iterator[int],
        *,
        least_batches: int,
        seconds: float,
        clock: Callable[[], float],
    ) -> Self:
        """Times a window from the start of an epoch until `seconds` and `least_batches` mini-batches have passed.

        Args:
            epochs: The epochs to train.
            numbers: Gives the number of each epoch; short ones are repeated.
            least_batches: Least number of mini-batches.
            seconds: Least seconds.
            clock: Returns seconds from any origin.
        """
        window = cls([], [], [], len(epochs.starts(0)), [])
        begun = clock()
        while len(window.steps) < least_batches or clock() - begun < seconds:
            epoch = next(numbers)
            firsts = epochs.starts(epoch)
            last = clock()
            with closing(epochs.steps(epoch)) as running:
                for index, step in enumerate(running):
                    now = clock()
                    (window.first if index in firsts else window.other).append(now - last)
                    window.steps.append(step)
                    enough = len(window.steps) >= least_batches and now - begun >= seconds
                    if enough and index + 1 < epochs.batches:  # after an epoch's last mini-batch its ending is timed
                        break
                    last = now
                else:
                    window.endings.append(clock() - last)
        return window

    @property
    def batch_s(self) -> float:
        """Mean seconds of a mini-batch, without the costs paid once per epoch or part."""
        return fmean(self.other if self._first_are_slower else [*self.first, *self.other]) / self.stretch

    @property
    def epoch_overhead_s(self) -> float:
        """Mean seconds of an epoch outside its mini-batches: the excess of the first ones, and the ending.

        If all mini-batches are first ones, their excess can't be told from the work and counts as work.
        """
        ending = fmean(self.endings) if self.endings else 0.0
        excess = fmean(self.first) / self.stretch - self.batch_s if self._first_are_slower else 0.0
        return self.starts_per_epoch * excess + ending / self.stretch

    def throughput(self, batches_per_epoch: int) -> float:
        """Returns epochs per second: measured if whole epochs were timed, else extrapolated from mini-batches."""
        return 1.0 / (self.batch_s * batches_per_epoch + self.epoch_overhead_s)

    @property
    def _first_are_slower(self) -> bool:
        return bool(self.first and self.other) and fmean(self.first) > fmean(self.other)


class Clocks(NamedTuple):
    """The clocks that time windows.

    Attributes:
        other_seconds: Core-seconds that others have taken from any origin, stolen ones included.
        stolen_seconds: Core-seconds that the hypervisor has given to other machines, from the same origin.
        cores: Cores of the machine.
        clock: Seconds from any origin.
    """

    other_seconds: Callable[[], float]
    stolen_seconds: Callable[[], float]
    cores: int
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class Timing(Generic[TimedStep]):
    """The windows that count, and the number of disturbed ones."""

    windows: list[Window[TimedStep]]  # the least disturbed of the timed windows, in order; as many as the plan asks for
    disturbed: int  # number of disturbed windows, whether they count or not
    batches_per_epoch: int  # mini-batches of an epoch

    @property
    def replicates(self) -> tuple[float, ...]:
        """Epochs per second of each window."""
        return tuple(window.throughput(self.batches_per_epoch) for window in self.windows)

    @property
    def throughput(self) -> float:
        """Median epochs per second of the windows."""
        return median(self.replicates)

    @property
    def epoch_overhead_s(self) -> float:
        """Median over the windows of an epoch's seconds outside its mini-batches."""
        return median(window.epoch_overhead_s for window in self.windows)

    @property
    def steps(self) -> list[TimedStep]:
        """The values yielded after each mini-batch of the windows."""
        return [step for window in self.windows for step in window.steps]

    def mean_seconds(self, seconds: Callable[[TimedStep], float]) -> float:
        """Returns the mean of `seconds` over all steps, without stolen time."""
        return fmean(seconds(step) / window.stretch for window in self.windows for step in window.steps)


def time_windows(epochs: Epochs[TimedStep], plan: TrialPlan, machine: Clocks) -> Timing[TimedStep]:
    """Times whole mini-batches after a warm-up, in `plan.windows` windows.

    Each window begins with an epoch and takes its share of `plan.timed_seconds`, or longer. A disturbed window is timed
    again. If `MOST_REPEATS` more windows are not enough, the least disturbed ones count.
    """
    numbers = count()
    _warm_up(epochs, numbers, plan.warmup_batches)
    timed: list[_Timed[TimedStep]] = []
    while sum(not one.disturbed for one in timed) < plan.windows and len(timed) < plan.windows + MOST_REPEATS:
        timed.append(_timed(epochs, numbers, plan, machine))
    by_disturbance = sorted(range(len(timed)), key=lambda i: (timed[i].disturbed, timed[i].others))
    in_order = [timed[i].window for i in sorted(by_disturbance[: plan.windows])]
    return Timing(in_order, sum(one.disturbed for one in timed), epochs.batches)


class _Timed(NamedTuple, Generic[TimedStep]):
    """A window, whether it was disturbed, and the share of the cores that others took."""

    window: Window[TimedStep]
    disturbed: bool
    others: float


def _timed(epochs: Epochs[TimedStep], numbers: Iterator[int], plan: TrialPlan, machine: Clocks) -> _Timed[TimedStep]:
    begun, others, stolen = machine.clock(), machine.other_seconds(), machine.stolen_seconds()
    seconds = plan.timed_seconds / plan.windows
    window = Window.timed(epochs, numbers, least_batches=plan.least_timed_batches, seconds=seconds, clock=machine.clock)
    others, stolen = machine.other_seconds() - others, machine.stolen_seconds() - stolen
    available = max(machine.clock() - begun, 1e-9) * machine.cores
    by_processes = others - stolen > max(_DISTURBING_SHARE * available, _LEAST_DISTURBING_S)
    by_theft = stolen > max(_DISTURBING_STOLEN_SHARE * available, _LEAST_DISTURBING_S)
    window = dataclasses.replace(window, stretch=stretch(stolen / available))
    return _Timed(window, by_processes or by_theft, others / available)


def _warm_up(epochs: Epochs[TimedStep], numbers: Iterator[int], batches: int) -> None:
    done = 0
    while done < batches:
        with closing(epochs.steps(next(numbers))) as running:
            for _ in running:
                done += 1
                if done == batches:
                    break
