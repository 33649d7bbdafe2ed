"""Time of the cores that this process may use, busy or stolen, and the effect of stolen time on timed work."""

from __future__ import annotations

import os
import time

from a3gnn.threads import affinity
from a3gnn.threads.affinity import available_cores

_STAT = "/proc/stat"
#: Columns user, nice, system, irq, softirq and steal; the others are idle or counted in these.
_BUSY = (0, 1, 2, 5, 6, 7)
_STEAL = (7,)
#: Exponent of the slowdown. Threads wait for the one whose core was taken, so work slows down by more than the stolen
#: share: with an exponent of 1 for threads that never wait, and about 2 for two that always wait for each other. Chosen
#: cautiously from the fits of `python -m benchmarks.stolen_time amazon_computers` at commit 10d4978 on 2 cores: 1.7,
#: 2.2 and 2.6.
_WAITING = 1.8
#: Larger shares are treated as this one: the little that is left of the machine says nothing about it. Guess.
_MOST = 0.9


def busy_seconds() -> float:
    """Returns the seconds that these cores have been busy since the machine started, stolen time included."""
    return _seconds(_BUSY)


def stolen_seconds() -> float:
    """Returns the part of the busy seconds that the hypervisor has given to other machines (steal time)."""
    return _seconds(_STEAL)


def _seconds(columns: tuple[int, ...]) -> float:
    try:
        usable = {f"cpu{core}" for core in affinity.home()}
        with open(_STAT, encoding="ascii") as file:
            cores = [words[1:] for words in map(str.split, file) if words[0] in usable]
        return sum(int(core[column]) for core in cores for column in columns) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


class StolenTime:
    """Counts from its creation on, on the cores that this process may use; off by hundredths, the kernel's ticks."""

    def __init__(self) -> None:
        self._start = time.monotonic(), stolen_seconds()

    def passed_s(self) -> float:
        """Returns the wall seconds so far."""
        return time.monotonic() - self._start[0]

    def seconds(self) -> float:
        """Returns the core seconds stolen so far."""
        return max(0.0, stolen_seconds() - self._start[1])

    def share(self) -> float:
        """Returns the stolen share of these cores' time so far, in [0, 1]."""
        available = max(self.passed_s(), 1e-3) * available_cores()
        return min(self.seconds() / available, 1.0)


def stretch(share: float) -> float:
    """Returns the factor by which work slows down if `share` of its cores' time, in [0, 1], is stolen."""
    return float((1.0 - min(share, _MOST)) ** -_WAITING)
