"""`Window`: a stretch of timed mini-batches, which gives one replicate of the throughput."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from statistics import fmean
from typing import Generic, Self, TypeVar

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
