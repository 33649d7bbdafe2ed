"""How many cores other processes take meanwhile."""

from __future__ import annotations

import os

from a3gnn.process.memory import process_tree
from a3gnn.threads import core_time
from a3gnn.threads.stolen_time import StolenTime

#: Of the words of /proc/PID/stat after the command's name: the process' user and system time, threads included, and
#: those of its children that have ended.
_OWN = slice(11, 15)


class OtherWork:
    """Counts from when it is made, on the cores that this process may use; Linux only, elsewhere there is none to see.

    Left out is the work of this process, of its threads and of all its descendants. What the hypervisor gave to others
    (steal time) is theirs.
    """

    def __init__(self) -> None:
        self._stolen = StolenTime()
        self._start = core_time.busy_seconds(), _own_seconds()

    def seconds(self) -> float:
        """Returns the seconds of cores that others took since then; off by some hundredths, the kernel counts ticks."""
        busy, own = self._start
        return max(0.0, (core_time.busy_seconds() - busy) - (_own_seconds() - own))

    def stolen_seconds(self) -> float:
        """Returns the part of them that the hypervisor gave to other machines."""
        return self._stolen.seconds()

    def stolen_share(self) -> float:
        """Returns what part of these cores' time that was since then, in [0, 1]."""
        return self._stolen.share()

    def cores(self) -> float:
        """Returns the cores that others kept busy in the mean since then."""
        return self.seconds() / max(self._stolen.passed_s(), 1e-3)


def _own_seconds() -> float:
    """Returns the seconds of cores that this process and its descendants have taken, those included that have ended."""
    return sum(_process_seconds(member) for member in process_tree(os.getpid()))


def _process_seconds(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = file.read().rpartition(b")")[2].split()[_OWN]
    except OSError:  # it has ended: its parent has its seconds
        return 0.0
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
