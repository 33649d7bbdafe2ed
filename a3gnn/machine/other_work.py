"""Cores that other processes take during a period."""

from __future__ import annotations

import os

from a3gnn.process.memory import process_tree
from a3gnn.threads import core_time
from a3gnn.threads.core_time import StolenTime

#: Words of /proc/PID/stat after the command's name: user and system time of the process with its threads, and of its
#: ended children.
_OWN = slice(11, 15)


class OtherWork:
    """Counts from its creation on, on the cores that this process may use; outside Linux it sees no other work.

    The work of this process, its threads and its descendants is left out. Time that the hypervisor gave to other
    machines (steal time) counts as other work.
    """

    def __init__(self) -> None:
        self._stolen = StolenTime()
        self._start = core_time.busy_seconds(), _own_seconds()

    def seconds(self) -> float:
        """Returns the core seconds that others took so far; off by some hundredths, because the kernel counts ticks."""
        busy, own = self._start
        return max(0.0, (core_time.busy_seconds() - busy) - (_own_seconds() - own))

    def stolen_seconds(self) -> float:
        """Returns the core seconds that the hypervisor gave to other machines; they are part of `seconds`."""
        return self._stolen.seconds()

    def stolen_share(self) -> float:
        """Returns the stolen share of these cores' time so far, in [0, 1]."""
        return self._stolen.share()

    def cores(self) -> float:
        """Returns the mean number of cores that others kept busy so far."""
        return self.seconds() / max(self._stolen.passed_s(), 1e-3)


def _own_seconds() -> float:
    """Returns the core seconds that this process and its descendants have taken, ended ones included."""
    return sum(_process_seconds(member) for member in process_tree(os.getpid()))


def _process_seconds(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = file.read().rpartition(b")")[2].split()[_OWN]
    except OSError:  # it has ended, and its parent counts its seconds
        return 0.0
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
