"""`StolenTime`: time that a hypervisor gives to other machines (steal time), and its effect on timed work."""

from __future__ import annotations

import time

from a3gnn.threads import core_time
from a3gnn.threads.affinity import available_cores

#: Exponent of the slowdown. Threads wait for the one whose core was taken, so work slows down by more than the stolen
#: share: with an exponent of 1 for threads that never wait, and about 2 for two that always wait for each other. Chosen
#: cautiously from the fits of `python -m benchmarks.stolen_time amazon_computers` at commit 10d4978 on 2 cores: 1.7,
#: 2.2 and 2.6.
_WAITING = 1.8
#: Larger shares are treated as this one: the little that is left of the machine says nothing about it. Guess.
_MOST = 0.9


class StolenTime:
    """Counts from its creation on, on the cores that this process may use; off by hundredths, the kernel's ticks."""

    def __init__(self) -> None:
        self._start = time.monotonic(), core_time.stolen_seconds()

    def passed_s(self) -> float:
        """Returns the wall seconds so far."""
        return time.monotonic() - self._start[0]

    def seconds(self) -> float:
        """Returns the core seconds stolen so far."""
        return max(0.0, core_time.stolen_seconds() - self._start[1])

    def share(self) -> float:
        """Returns the stolen share of these cores' time so far, in [0, 1]."""
        available = max(self.passed_s(), 1e-3) * available_cores()
        return min(self.seconds() / available, 1.0)


def stretch(share: float) -> float:
    """Returns the factor by which work slows down if `share` of its cores' time, in [0, 1], is stolen."""
    return float((1.0 - min(share, _MOST)) ** -_WAITING)
