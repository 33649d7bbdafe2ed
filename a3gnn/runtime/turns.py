"""Whether worker threads and the thread that trains use the cores together, or take turns."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from a3gnn import team

# Mini-batches of a trial: those that refill the pipeline are not counted.
_SETTLE, _COUNTED = 2, 4
_TRIALS = 3
# After so many mini-batches the choice is made anew: other work on the machine comes and goes.
_TERM = 500


class Turns:
    """Decides by measurement how the stages of mode 1 and mode 2 share the cores.

    Together, a worker runs on one thread beside the training; apart, it waits until the training pauses and then has
    all threads. On cores that training fills, threads that overlap only push each other aside; where a GPU trains, or
    cores are idle, overlap is the gain. Which is faster is found by trying both in turn for a few mini-batches, every
    so often. Mini-batches are the same, bit for bit, however that goes.

    Attributes:
        together: How it goes at the moment.
    """

    def __init__(self) -> None:
        self.together = True
        self._seconds: dict[bool, list[float]] = {True: [], False: []}
        self._left = _SETTLE + _COUNTED

    def count(self, seconds: float) -> None:
        """Takes note of the seconds from one mini-batch to the next, and goes over to the other way when it is time."""
        if self._left <= _COUNTED:
            self._seconds[self.together].append(seconds)
        self._left -= 1
        if self._left > 0:
            return
        if all(len(times) >= _TRIALS * _COUNTED for times in self._seconds.values()):
            self.together = statistics.median(self._seconds[True]) <= statistics.median(self._seconds[False])
            self._seconds = {True: [], False: []}
            self._left = _TERM
        else:
            self.together = not self.together
            self._left = _SETTLE + _COUNTED


class Cores:
    """The cores, as one epoch's workers and the thread that trains share them.

    Args:
        turns: Decides, and learns.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._free = threading.Lock()
        self._training = False
        self._last: float | None = None

    def take(self) -> None:
        """Says that training uses the cores from now on: workers that take turns begin nothing new."""
        self._free.acquire()
        self._training = True

    def leave(self) -> None:
        """Says that training pauses, if it goes on. Any thread may say so."""
        if self._training:
            self._training = False
            self._free.release()

    def next(self) -> None:
        """Leaves the cores after a mini-batch that is done, and counts it."""
        self.leave()
        now = perf_counter()
        if self._last is not None:
            self._turns.count(now - self._last)
        self._last = now

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Waits for the cores where workers take turns; the calling worker may use as many threads as it then has."""
        if self._turns.together:
            with team.limited(1):
                yield
        else:
            with self._free, team.limited(team.usable_cores()):
                yield
