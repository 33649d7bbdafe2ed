"""Whether worker threads and the thread that trains overlap on the cores, or alternate."""

from __future__ import annotations

import statistics

# Mini-batches of a trial: those that fill or empty the pipeline are not counted.
_SETTLE, _COUNTED = 2, 4
_TRIALS = 3
# After so many mini-batches the choice is made anew: other work on the machine comes and goes.
_TERM = 500


class OverlapPolicy:
    """Decides by measurement how the stages of mode 1 and mode 2 share the cores.

    Overlapped, each worker runs on one thread during the training. Alternating, a mini-batch begins when it is asked
    for, and its worker has all threads while the caller waits. On cores that training fills, overlap only slows it
    down; where a GPU trains, or cores are idle, overlap gains. Both are tried for a few mini-batches, the faster is
    kept, and the comparison is repeated every 500 mini-batches. Mini-batches are bit-identical either way.

    Args:
        workers: Mini-batches that may be under way when one way ends: they are not counted for the other.

    Attributes:
        overlapped: How it goes at the moment.
    """

    def __init__(self, workers: int = 1) -> None:
        self.overlapped = True
        self._seconds: dict[bool, list[float]] = {True: [], False: []}
        self._trial = max(_SETTLE, workers) + _COUNTED
        self._left = self._trial

    def count(self, seconds: float) -> None:
        """Takes note of the seconds from one mini-batch to the next, and goes over to the other way when it is time."""
        if self._left <= _COUNTED:
            self._seconds[self.overlapped].append(seconds)
        self._left -= 1
        if self._left > 0:
            return
        if all(len(times) >= _TRIALS * _COUNTED for times in self._seconds.values()):
            self.overlapped = statistics.median(self._seconds[True]) <= statistics.median(self._seconds[False])
            self._seconds = {True: [], False: []}
            self._left = _TERM
        else:
            self.overlapped = not self.overlapped
            self._left = self._trial
