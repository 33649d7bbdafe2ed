"""How much memory a process tree uses, split into what the system can reclaim and what it can't."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass

from a3gnn.storage.host_memory import available_bytes, host_memory_bytes

#: Lines of /proc/PID/status that add up to memory which is gone from the machine until the process gives it back.
ANONYMOUS = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)
_FILE = re.compile(rb"^RssFile:\s+(\d+) kB", re.MULTILINE)
#: Share of the machine's memory, or of a limit, that is to be left at least. Guess.
RESERVE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of a process tree.

    Attributes:
        anonymous_bytes: Anonymous and shared-anonymous pages, resident or swapped: what can't be reclaimed.
        file_bytes: Resident file-backed pages, which the system drops when it needs the room.
    """

    anonymous_bytes: int = 0
    file_bytes: int = 0

    def __add__(self, other: MemoryUse) -> MemoryUse:
        return MemoryUse(self.anonymous_bytes + other.anonymous_bytes, self.file_bytes + other.file_bytes)

    def peak(self, other: MemoryUse) -> MemoryUse:
        """Returns the larger of each figure."""
        return MemoryUse(max(self.anonymous_bytes, other.anonymous_bytes), max(self.file_bytes, other.file_bytes))


def spare_bytes() -> int | None:
    """Returns what processes may take from now on: what is free less a reserve; None where that is not known.

    Nothing may take more: where memory runs out, the kernel ends whichever process it likes.
    """
    free = available_bytes()
    return None if free is None else max(0, free - round(RESERVE_SHARE * host_memory_bytes()))


def tree_memory(pid: int) -> MemoryUse:
    """Returns the memory of process `pid` and all its descendants; zero once they are gone.

    A page that several of them share (after a fork) counts in each. On Linux the figures are the kernel's own;
    elsewhere psutil's USS stands for the anonymous memory and the rest of the resident set for the file-backed one.
    """
    return sum((process_memory(member) for member in process_tree(pid)), start=MemoryUse())


def process_memory(pid: int) -> MemoryUse:
    """Returns the memory of process `pid` alone; zero if it is gone. Some 20 microseconds on Linux."""
    if sys.platform != "linux":
        return _portable_memory(pid)
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            status = file.read()
    except OSError:
        return MemoryUse()
    anonymous, resident = (1024 * sum(map(int, pattern.findall(status))) for pattern in (ANONYMOUS, _FILE))
    return MemoryUse(anonymous, resident)


def process_tree(pid: int) -> list[int]:
    """Returns `pid` and its descendants, `pid` first.

    One pass over the process table: kernels need not offer a list of children. Some milliseconds on a busy machine.
    """
    if sys.platform != "linux":
        return _portable_tree(pid)
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The command's name stands in brackets and may hold spaces: the parent is the second word after it.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children[parent].append(int(name))
    tree = [pid]
    for member in tree:
        tree.extend(children[member])
    return tree


def _portable_tree(pid: int) -> list[int]:
    import psutil

    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return [pid]


def _portable_memory(pid: int) -> MemoryUse:
    import psutil

    try:
        full = psutil.Process(pid).memory_full_info()
    except psutil.Error:
        return MemoryUse()
    return MemoryUse(int(full.uss), max(0, int(full.rss - full.uss)))
