"""Decides whether worker threads and the training thread overlap on the cores, or alternate."""

from __future__ import annotations

import math
import statistics

# Mini-batches per test of one mode: untimed ones that fill or empty the pipeline, then timed ones. Guesses.
_SETTLING, _TIMED = 2, 4
# Tests of each mode. Guess.
_TESTS = 3
# For a single comparison: most tests per mode, and standard errors that make a difference clear. Guesses.
_MOST_TESTS, _CLEAR = 6, 3.0
# Mini-batches until the modes are compared again, because other work on the machine comes and goes. Guess.
_KEPT = 500


class OverlapPolicy:
    """Decides by measurement how the stages of mode 1 and mode 2 share the cores.

    Overlapped, each worker runs on one thread during the training. Alternating, a mini-batch begins when it is
    requested, and its worker has all threads while the caller waits. On cores that training fills, overlap only slows
    it down; with a GPU or idle cores, overlap is faster. Both modes are tried for a few mini-batches, the faster one is
    used, and the comparison is repeated every 500 mini-batches. Mini-batches are bit-identical in both modes.

    Args:
        workers: Mini-batches in progress when the mode changes; they are not timed.

    Attributes:
        overlapped: Whether workers and training overlap now.
        is_settled: Whether the comparison has ended and the faster mode is in use.
    """

    def __init__(self, workers: int = 1) -> None:
        self.overlapped, self.is_settled = True, False
        self._seconds: dict[bool, list[float]] = {True: [], False: []}
        self._test = max(_SETTLING, workers) + _TIMED
        self._left = self._test

    def count(self, seconds: float) -> None:
        """Records the seconds from one mini-batch to the next, and changes the mode when its test is over."""
        if self._left <= _TIMED:
            self._seconds[self.overlapped].append(seconds)
        self._left -= 1
        if self._left > 0:
            return
        if self._is_enough():
            self.overlapped = statistics.median(self._seconds[True]) <= statistics.median(self._seconds[False])
            self._seconds = {True: [], False: []}
            self._left, self.is_settled = _KEPT, True
        else:
            self.overlapped, self.is_settled = not self.overlapped, False
            self._left = self._test

    def _is_enough(self) -> bool:
        """Returns whether both modes have been tested often enough to choose one."""
        return all(len(times) >= _TESTS * _TIMED for times in self._seconds.values())


class OverlapOnce(OverlapPolicy):
    """Compares the modes once, for a caller that compares again when the machine has changed.

    The choice is final, so each mode is tested up to twice as often, until one is clearly faster.
    """

    def count(self, seconds: float) -> None:
        """Does the same as `OverlapPolicy.count` until the faster mode is known."""
        if not self.is_settled:
            super().count(seconds)

    def _is_enough(self) -> bool:
        if not super()._is_enough():
            return False
        overlapped, alternating = self._seconds.values()
        if len(overlapped) >= _MOST_TESTS * _TIMED:
            return True
        errors = (statistics.stdev(times) / math.sqrt(len(times)) for times in (overlapped, alternating))
        return abs(statistics.fmean(overlapped) - statistics.fmean(alternating)) > _CLEAR * math.hypot(*errors)


class Overlapped(OverlapPolicy):
    """Always overlaps; the caller tries alternation as a separate configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.is_settled = True

    def count(self, seconds: float) -> None:
        """Does nothing."""
