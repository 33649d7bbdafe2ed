"""`StolenTime`: the time that a hypervisor gives to other machines (steal time), and what it makes of timed work."""

from __future__ import annotations

import time

from a3gnn.threads import core_time
from a3gnn.threads.affinity import available_cores

#: Threads wait for the one whose core was taken, so that work takes longer than by the share of the cores alone: with
#: an exponent of 1 for threads that never wait, and of about 2 for two that wait for each other all the time. Chosen
#: cautiously from what `python -m benchmarks.stolen_time amazon_computers` at commit 10d4978 fits on 2 cores: 1.7, 2.2
#: and 2.6.
_WAITING = 1.8
#: A share beyond this one stretches no further: what is then left of the machine says nothing of it. Guess.
_MOST = 0.9


class StolenTime:
    """Counts from when it is made, on the cores that this process may use; off by hundredths, the kernel's ticks."""

    def __init__(self) -> None:
        self._start = time.monotonic(), core_time.stolen_seconds()

    def passed_s(self) -> float:
        """Returns the seconds of the clock since then."""
        return time.monotonic() - self._start[0]

    def seconds(self) -> float:
        """Returns the seconds of cores that were stolen since then."""
        return max(0.0, core_time.stolen_seconds() - self._start[1])

    def share(self) -> float:
        """Returns what part of these cores' time that was since then, in [0, 1]."""
        available = max(self.passed_s(), 1e-3) * available_cores()
        return min(self.seconds() / available, 1.0)


def stretch(share: float) -> float:
    """Returns how many times as long work takes where `share` of its cores' time, in [0, 1], is stolen."""
    return float((1.0 - min(share, _MOST)) ** -_WAITING)
