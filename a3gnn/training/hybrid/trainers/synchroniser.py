"""`Synchroniser`: gathers what trainers have computed, sums it, and gives each the sum (HyScale-GNN, Listing 1)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from torch import Tensor

from a3gnn.runtime.watch import StoppedError, Watch
from a3gnn.threads.feeder import TICK_S


class Synchroniser:
    """A mutex, a condition, and how many trainers are DONE; the listing never sets that back, which is mended.

    Each trainer says DONE when what is to be summed is in the host's memory. When all have, their values are added in
    the order of the trainers, whoever came first, and the sum is broadcast. Trainers acknowledge a mini-batch when
    their weights are updated; it ends when all have. Once one has failed, no update begins any more.

    Args:
        size: Trainers.
        watch: Does not count the time in which a trainer waits for others.

    Attributes:
        acknowledged: Trainers whose weights are those after the mini-batch under way.
        updating: Those whose weights are neither those before it nor those after it.
        seconds: That sums have taken so far.
    """

    def __init__(self, size: int, watch: Watch) -> None:
        self._size, self._watch = size, watch
        self._condition = threading.Condition()
        self._given: list[Tensor | None] = [None] * size
        self._sum: Tensor | None = None
        self._done = self._round = 0
        self._failure: BaseException | None = None
        self.acknowledged: set[int] = set()
        self.updating: set[int] = set()
        self.seconds = 0.0

    def exchange(self, trainer: int, values: Tensor) -> Tensor:
        """Says DONE for `trainer`, and returns the sum of all trainers' `values`, on the host; it is not to be changed.

        Raises:
            StoppedError: A trainer has failed, which the synchroniser's side is told.
        """
        with self._condition, self._watch.waiting(trainer):
            self._given[trainer] = values
            self._done += 1
            this = self._round
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._round != this or self._failure is not None)
            if self._round == this or self._sum is None:
                raise StoppedError
            return self._sum

    @contextmanager
    def update(self, trainer: int) -> Iterator[None]:
        """Within it `trainer` updates its weights, which it acknowledges in the end, unless it fails.

        Raises:
            StoppedError: Another one has failed before; nothing is to be updated.
        """
        with self._condition:
            if self._failure is not None:
                raise StoppedError
            self.updating.add(trainer)
        yield
        with self._condition:
            self.updating.remove(trainer)
            self.acknowledged.add(trainer)
            self._condition.notify_all()

    def fail(self, error: BaseException) -> None:
        """Stops all trainers that wait, or will; `serve` raises the first error."""
        with self._condition:
            self._failure = self._failure or error
            self._condition.notify_all()

    def reset(self) -> None:
        """Forgets what has failed, and whatever was under way: all trainers are as they are before a mini-batch."""
        with self._condition:
            self._given, self._done, self._failure = [None] * self._size, 0, None
            self.updating.clear()

    def begin(self) -> None:
        """Begins a mini-batch, before any trainer has it."""
        with self._condition:
            self.acknowledged.clear()

    def serve(self, check: Callable[[], None]) -> None:
        """Sums what trainers give, as often as they do, until all have acknowledged the mini-batch.

        Args:
            check: Called every tenth of a second while nothing comes; what it raises ends the waiting.
        """
        with self._condition:
            while len(self.acknowledged) < self._size:
                if self._failure is not None:
                    raise self._failure
                if self._done == self._size:
                    self._broadcast()
                elif not self._condition.wait(TICK_S):
                    check()

    def _broadcast(self) -> None:
        begin = perf_counter()
        first, *others = (values for values in self._given if values is not None)
        total = first.clone()
        for values in others:
            total += values
        self._sum, self._done, self._round = total, 0, self._round + 1
        self._given = [None] * self._size
        self._condition.notify_all()
        self.seconds += perf_counter() - begin
