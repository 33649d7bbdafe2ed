"""How many cores other processes take meanwhile."""

from __future__ import annotations

import os
import time

from a3gnn.process.memory import process_tree
from a3gnn.threads import affinity
from a3gnn.threads.affinity import available_cores

_STAT = "/proc/stat"
#: Of its columns: user, nice, system, irq, softirq and steal; the rest is idle or counted in these.
_BUSY = (0, 1, 2, 5, 6, 7)
_STEAL = (7,)
#: Of the words of /proc/PID/stat after the command's name: the process' user and system time, threads included, and
#: those of its children that have ended.
_OWN = slice(11, 15)


class OtherWork:
    """Counts from when it is made, on the cores that this process may use; Linux only, elsewhere there is none to see.

    Left out is the work of this process, of its threads and of all its descendants. What the hypervisor gave to others
    (steal time) is theirs.
    """

    def __init__(self) -> None:
        self._start = time.monotonic(), _seconds(_BUSY), _own_seconds(), _seconds(_STEAL)

    def seconds(self) -> float:
        """Returns the seconds of cores that others took since then; off by some hundredths, the kernel counts ticks."""
        _, busy, own, _ = self._start
        return max(0.0, (_seconds(_BUSY) - busy) - (_own_seconds() - own))

    def stolen_seconds(self) -> float:
        """Returns the part of them that the hypervisor gave to other machines."""
        return max(0.0, _seconds(_STEAL) - self._start[3])

    def stolen_share(self) -> float:
        """Returns what part of these cores' time that was since then, in [0, 1]."""
        available = max(time.monotonic() - self._start[0], 1e-3) * available_cores()
        return min(self.stolen_seconds() / available, 1.0)

    def cores(self) -> float:
        """Returns the cores that others kept busy in the mean since then."""
        return self.seconds() / max(time.monotonic() - self._start[0], 1e-3)


def _seconds(columns: tuple[int, ...]) -> float:
    """Returns the seconds in `columns` of the cores that this process may use, since the machine started."""
    try:
        usable = {f"cpu{core}" for core in affinity.home()}
        with open(_STAT, encoding="ascii") as file:
            cores = [words[1:] for words in map(str.split, file) if words[0] in usable]
        return sum(int(core[column]) for core in cores for column in columns) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


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
