"""Time of the cores that this process may use, from the kernel's counters; 0 on systems other than Linux."""

from __future__ import annotations

import os

from a3gnn.threads import affinity

_STAT = "/proc/stat"
#: Columns user, nice, system, irq, softirq and steal; the others are idle or counted in these.
_BUSY = (0, 1, 2, 5, 6, 7)
_STEAL = (7,)


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
