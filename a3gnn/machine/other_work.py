"""How many cores other processes take meanwhile."""

from __future__ import annotations

import os
import time

#: Of the columns of /proc/stat: user, nice, system, irq, softirq and steal; the rest is idle or counted in these.
_BUSY = (0, 1, 2, 5, 6, 7)


class OtherWork:
    """Counts from when it is made; Linux only, elsewhere there seems to be none."""

    def __init__(self) -> None:
        self._start = time.monotonic(), _busy_seconds(), _own_seconds()

    def cores(self) -> float:
        """Returns the cores that were busy in the mean since then, this process' work and its children's left out."""
        start, busy, own = self._start
        others = (_busy_seconds() - busy) - (_own_seconds() - own)
        return max(0.0, others / max(time.monotonic() - start, 1e-3))


def _busy_seconds() -> float:
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:]]
        return sum(ticks[column] for column in _BUSY) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
