"""`Timing`: throughput from timed windows of mini-batches, those that other work disturbs timed again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from statistics import fmean, median
from typing import Generic, NamedTuple, Self, TypeVar

from a3gnn.profiling.trial.request import TrialPlan
from a3gnn.quick import QUICK
from a3gnn.threads.stolen_time import stretch

Step = TypeVar("Step")


@dataclass(frozen=True, slots=True)
class Epochs(Generic[Step]):
    """The epochs that a trainer trains.

    Attributes:
        steps: Trains the epoch of that number and yields after each mini-batch; it may be left early.
        starts: Indices of the mini-batches that begin the epoch of that number, or a part in it.
        batches: Mini-batches of an epoch.
    """

    steps: Callable[[int], Generator[Step, None, None]]
    starts: Callable[[int], Collection[int]]
    batches: int


@dataclass(frozen=True, slots=True)
class Window(Generic[Step]):
    """Seconds of the mini-batches that were timed, from asking for each to its being trained on.

    What is told of them is as without the time that was stolen meanwhile.

    Attributes:
        first: The first ones of an epoch and, where the graph is partitioned, of each part: they wait for the pipeline
            to fill and for the part's features.
        other: All others.
        endings: From the last mini-batch of a whole epoch to the epoch's end.
        starts_per_epoch: First mini-batches in an epoch.
        steps: What was yielded after each mini-batch.
        stretch: How many times as long everything took for the time that was stolen (`stolen_time.stretch`).
    """

    first: list[float]
    other: list[float]
    endings: list[float]
    starts_per_epoch: int
    steps: list[Step]
    stretch: float = 1.0

    @classmethod
    def timed(
        cls,
        epochs: Epochs[Step],
        numbers: Iterator[int],
        *,
        least_batches: int,
        seconds: float,
        clock: Callable[[], float],
    ) -> Self:
        """Returns a window that begins with an epoch, after which both `seconds` and enough mini-batches have passed.

        Args:
            epochs: What is trained.
            numbers: Gives the number of each epoch; short ones are repeated.
            least_batches: Mini-batches, at least.
            seconds: Seconds, at least.
            clock: Seconds from any origin.
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
                    if enough and index + 1 < epochs.batches:  # the last one of an epoch is followed by its ending
                        break
                    last = now
                else:
                    window.endings.append(clock() - last)
        return window

    @property
    def batch_s(self) -> float:
        """Mean seconds of a mini-batch without what is paid once an epoch or part."""
        return fmean(self.other if self._first_are_slower else [*self.first, *self.other]) / self.stretch

    @property
    def epoch_overhead_s(self) -> float:
        """Mean seconds of an epoch beside its mini-batches: the first ones' excess, and the ending.

        Where all mini-batches are first ones the excess can't be told from the work, and counts as work.
        """
        ending = fmean(self.endings) if self.endings else 0.0
        excess = fmean(self.first) / self.stretch - self.batch_s if self._first_are_slower else 0.0
        return self.starts_per_epoch * excess + ending / self.stretch

    def throughput(self, batches_per_epoch: int) -> float:
        """Returns epochs per second: of the timed epochs if they are whole, extrapolated from their batches if not."""
        return 1.0 / (self.batch_s * batches_per_epoch + self.epoch_overhead_s)

    @property
    def _first_are_slower(self) -> bool:
        return bool(self.first and self.other) and fmean(self.first) > fmean(self.other)


#: Windows beyond the plan's that are timed where others disturb, at most. Guess: by default a trial on a machine that
#: is never quiet then times twice as long.
MOST_REPEATS = 0 if QUICK else 3
#: Other processes disturb a window in which they took more than this share of the machine's cores,
_DISTURBING_SHARE = 0.1
#: and more than these seconds of them: the kernel counts by ticks of a hundredth on each core. Guess.
_LEAST_DISTURBING_S = 0.05
#: Stolen time is taken out of a window; beyond this share of the cores too roughly, so that it disturbs as well. Guess.
_DISTURBING_STOLEN_SHARE = 0.3


class Clocks(NamedTuple):
    """What windows are timed by.

    Attributes:
        other_seconds: Gives the seconds of cores that others have taken since any time, those stolen included.
        stolen_seconds: Gives the seconds of cores that the hypervisor has given to other machines since then.
        cores: Cores of the machine.
        clock: Gives seconds since any time.
    """

    other_seconds: Callable[[], float]
    stolen_seconds: Callable[[], float]
    cores: int
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class Timing(Generic[Step]):
    """The windows that count, and how many were disturbed.

    Attributes:
        windows: As many as the plan asks for, in their order: the least disturbed of those that were timed.
        disturbed: Windows, whether they count or not, that others disturbed.
        batches_per_epoch: Mini-batches of an epoch.
    """

    windows: list[Window[Step]]
    disturbed: int
    batches_per_epoch: int

    @property
    def replicates(self) -> tuple[float, ...]:
        """Epochs per second of each window."""
        return tuple(window.throughput(self.batches_per_epoch) for window in self.windows)

    @property
    def throughput(self) -> float:
        """Their median, epochs per second."""
        return median(self.replicates)

    @property
    def epoch_overhead_s(self) -> float:
        """Median over the windows of the seconds of an epoch beside its mini-batches."""
        return median(window.epoch_overhead_s for window in self.windows)

    @property
    def steps(self) -> list[Step]:
        """What was yielded after each mini-batch of the windows."""
        return [step for window in self.windows for step in window.steps]

    def mean_seconds(self, seconds: Callable[[Step], float]) -> float:
        """Returns the mean of what `seconds` gives of each step, without the time that was stolen."""
        return fmean(seconds(step) / window.stretch for window in self.windows for step in window.steps)


def time_windows(epochs: Epochs[Step], plan: TrialPlan, machine: Clocks) -> Timing[Step]:
    """Returns the timing of whole mini-batches after a warm-up, in `plan.windows` windows.

    Each begins with an epoch and takes its share of `plan.timed_seconds`, or longer. One that others disturb is timed
    again; where `MOST_REPEATS` do not suffice, the least disturbed count.
    """
    numbers = count()
    _warm_up(epochs, numbers, plan.warmup_batches)
    timed: list[_Timed[Step]] = []
    while sum(not one.disturbed for one in timed) < plan.windows and len(timed) < plan.windows + MOST_REPEATS:
        timed.append(_timed(epochs, numbers, plan, machine))
    by_disturbance = sorted(range(len(timed)), key=lambda i: (timed[i].disturbed, timed[i].others))
    in_order = [timed[i].window for i in sorted(by_disturbance[: plan.windows])]
    return Timing(in_order, sum(one.disturbed for one in timed), epochs.batches)


class _Timed(NamedTuple, Generic[Step]):
    """A window, whether others disturbed it, and the share of the cores that they took."""

    window: Window[Step]
    disturbed: bool
    others: float


def _timed(epochs: Epochs[Step], numbers: Iterator[int], plan: TrialPlan, machine: Clocks) -> _Timed[Step]:
    begun, others, stolen = machine.clock(), machine.other_seconds(), machine.stolen_seconds()
    seconds = plan.timed_seconds / plan.windows
    window = Window.timed(epochs, numbers, least_batches=plan.least_timed_batches, seconds=seconds, clock=machine.clock)
    others, stolen = machine.other_seconds() - others, machine.stolen_seconds() - stolen
    available = max(machine.clock() - begun, 1e-9) * machine.cores
    by_processes = others - stolen > max(_DISTURBING_SHARE * available, _LEAST_DISTURBING_S)
    by_theft = stolen > max(_DISTURBING_STOLEN_SHARE * available, _LEAST_DISTURBING_S)
    window = dataclasses.replace(window, stretch=stretch(stolen / available))
    return _Timed(window, by_processes or by_theft, others / available)


def _warm_up(epochs: Epochs[Step], numbers: Iterator[int], batches: int) -> None:
    done = 0
    while done < batches:
        with closing(epochs.steps(next(numbers))) as running:
            for _ in running:
                done += 1
                if done == batches:
                    break
