"""Memory of a process tree, split into pages that the system can reclaim and pages that it can't.

Also counts the processes that the kernel killed for lack of memory.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from a3gnn.storage.host_limits import available_bytes, host_memory_bytes, own_memory_groups

#: The usual folder of control groups, and the file with the machine's counts.
_GROUPS, _MACHINE = Path("/sys/fs/cgroup"), Path("/proc/vmstat")
#: Lines of /proc/PID/status that sum to the memory that the machine lacks until the process frees it.
ANONYMOUS = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)
_FILE = re.compile(rb"^RssFile:\s+(\d+) kB", re.MULTILINE)
#: The kernel's mark of the most pages, of files or not, that were resident at once; and the pages in swap space.
_MARK, _SWAPPED = (re.compile(rb"^%s:\s+(\d+) kB" % name, re.MULTILINE) for name in (b"VmHWM", b"VmSwap"))
#: Reserve as a share of the machine's memory, or of a limit, which docs/design/tuning.md promises.
RESERVE_SHARE = 0.05
#: Largest reserve as a share of the free memory, because a large machine in use has little free for long.
_FREE_SHARE = 0.25
#: Description of the limit of a process that is its own memory plus `spare_bytes`, for messages.
FREE_LIMIT = "its memory at the start plus the machine's free memory, less a reserve"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of a process tree."""

    anonymous_bytes: int = 0  # anonymous and shared-anonymous pages, resident or swapped, which can't be reclaimed
    file_bytes: int = 0  # resident file-backed pages, which the system drops when it needs the room

    def __add__(self, other: MemoryUse) -> MemoryUse:
        return MemoryUse(self.anonymous_bytes + other.anonymous_bytes, self.file_bytes + other.file_bytes)

    def peak(self, other: MemoryUse) -> MemoryUse:
        """Returns the larger of each figure."""
        return MemoryUse(max(self.anonymous_bytes, other.anonymous_bytes), max(self.file_bytes, other.file_bytes))


def spare_bytes() -> int | None:
    """Returns the bytes that processes may still take: the free memory less a reserve; None if unknown.

    No process may take more, because out of memory the kernel kills a process of its own choice. The reserve is 5% of
    the machine's memory, and at most a quarter of the free memory: a large machine in use has less than 5% free.
    """
    free = available_bytes()
    if free is None:
        return None
    return free - min(round(RESERVE_SHARE * host_memory_bytes()), round(_FREE_SHARE * free))


def process_memory(pid: int) -> MemoryUse:
    """Returns the memory of process `pid` alone; zero if it has ended. It takes about 20 microseconds on Linux.

    Elsewhere, psutil's USS stands for the anonymous memory and the rest of the resident set for the file-backed memory.
    """
    if sys.platform != "linux":
        return _portable_memory(pid)
    return MemoryUse(*_sums(_status(pid), ANONYMOUS, _FILE))


class PeakMemory:
    """Returns a process's peak memory between looks, from the kernel's mark, which catches peaks of any length.

    The mark (VmHWM) counts pages of files too, so the larger number of file pages at the two looks is subtracted. Pages
    of a file that was mapped and unmapped between two looks therefore count as anonymous. The kernel keeps no mark
    without file pages, and subtracting more would miss anonymous memory that was taken and freed between two looks.

    Args:
        pid: The process.
        resets: Whether a look lowers a mark above the present memory, so a later and lower peak shows. Only for a
            process that looks at itself; it also lowers the maximum resident set size that the system reports.
    """

    def __init__(self, pid: int, *, resets: bool = False) -> None:
        self._pid, self._resets = pid, resets
        self._last: tuple[int, int, int] | None = None

    def look(self) -> MemoryUse:
        """Returns the known peak of each figure since the last look, at least its present value."""
        if sys.platform != "linux":
            return _portable_memory(self._pid)
        anonymous, files, mark, swapped = _sums(_status(self._pid), ANONYMOUS, _FILE, _MARK, _SWAPPED)
        last, self._last = self._last, (files, mark, swapped)
        if self._resets and mark > anonymous - swapped + files:
            self._last = (files, self._reset(mark), swapped)
        if last is None or mark == last[1]:
            return MemoryUse(anonymous, files)
        return MemoryUse(max(anonymous, mark - max(files, last[0]) + min(swapped, last[2])), files)

    def _reset(self, mark: int) -> int:
        """Lowers the mark to the present memory if the kernel allows it (proc_pid_clear_refs(5)); returns the mark."""
        try:
            with open(f"/proc/{self._pid}/clear_refs", "wb") as file:
                file.write(b"5")
        except OSError:
            return mark
        return _sums(_status(self._pid), _MARK)[0]


def process_tree(pid: int) -> list[int]:
    """Returns `pid` and its descendants, `pid` first.

    It makes one pass over the process table, because some kernels have no list of children. It takes some milliseconds
    on a busy machine.
    """
    if sys.platform != "linux":
        return _portable_tree(pid)
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The command's name is in brackets and may contain spaces, so the parent is the second word after
                    # it.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children[parent].append(int(name))
    tree = [pid]
    for member in tree:
        tree.extend(children[member])
    return tree


def oom_kills() -> int:
    """Returns a count that rises when the kernel kills a process of this one's control groups for lack of memory.

    The kernel counts a kill in the group of the killed process, for a limit of any group. If no group has a count, as
    at the root, the machine's count is returned; 0 if the kernel has none either.
    """
    files = {_GROUPS / "memory.events", _GROUPS / "memory" / "memory.oom_control"}
    for group in own_memory_groups(str(_GROUPS)):
        files.add(group.folder / ("memory.oom_control" if group.version == 1 else "memory.events"))
    counts = [found for path in files if (found := _count(path)) is not None]
    return sum(counts) if counts else _count(_MACHINE) or 0


def _status(pid: int) -> bytes:
    """Returns the kernel's figures of a process; empty after it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _sums(status: bytes, *patterns: re.Pattern[bytes]) -> list[int]:
    """Returns for each pattern the sum of the matching lines, in bytes."""
    return [1024 * sum(map(int, pattern.findall(status))) for pattern in patterns]


def _count(path: Path) -> int | None:
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else None


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
