"""Decides whether worker threads and the training thread overlap on the cores, or alternate."""

from __future__ import annotations

import statistics

# Mini-batches per test of one mode: untimed ones that fill or empty the pipeline, then timed ones. Guesses.
_SETTLING, _TIMED = 2, 4
# Tests of each mode. Guess.
_TESTS = 3
# Mini-batches until the modes are compared again, because other work on the machine comes and goes. A comparison has
# 36, half of them in the slower mode, so that it costs 3 % of the difference between the modes.
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
    """

    def __init__(self, workers: int = 1) -> None:
        self.overlapped = True
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
        if all(len(times) >= _TESTS * _TIMED for times in self._seconds.values()):
            self.overlapped = statistics.median(self._seconds[True]) <= statistics.median(self._seconds[False])
            self._seconds = {True: [], False: []}
            self._left = _KEPT
        else:
            self.overlapped = not self.overlapped
            self._left = self._test
