"""How much memory a process tree uses, split into what the system can reclaim and what it can't."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from a3gnn.storage.host_memory import available_bytes, host_memory_bytes, own_memory_groups

#: Where control groups are by convention, and the machine's counts.
_GROUPS, _MACHINE = Path("/sys/fs/cgroup"), Path("/proc/vmstat")
#: What someone should know of a process that this signal ended.
_KILLED = (
    "which the kernel's out-of-memory killer sends where memory runs out, as dmesg says, and schedulers send, too; if "
    "it was memory, a lower memory limit or a smaller batch_size needs less of it"
)


def described_status(status: int) -> str:
    """Returns in a line how a process ended whose exit status is `status`: minus the signal, if one ended it."""
    if status >= 0:
        return f"status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        name = str(-status)
    return f"signal {name}, {_KILLED}" if -status == signal.SIGKILL else f"signal {name}"


def oom_kills() -> int:
    """Returns a count that rises where the kernel kills a process of this one's control groups for want of memory.

    Whichever limit was passed, the kernel counts a kill in the group of the killed process. Where no group counts any,
    as at the root, the machine's count is returned; 0 where the kernel does not say that either.
    """
    files = {_GROUPS / "memory.events", _GROUPS / "memory" / "memory.oom_control"}
    for group in own_memory_groups(str(_GROUPS)):
        files.add(group.folder / ("memory.oom_control" if group.version == 1 else "memory.events"))
    counts = [found for path in files if (found := _count(path)) is not None]
    return sum(counts) if counts else _count(_MACHINE) or 0


def _count(path: Path) -> int | None:
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else None


#: Lines of /proc/PID/status that add up to memory which is gone from the machine until the process gives it back.
ANONYMOUS = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", re.MULTILINE)
_FILE = re.compile(rb"^RssFile:\s+(\d+) kB", re.MULTILINE)
#: Share of the machine's memory, or of a limit, that is to be left at least. Guess.
RESERVE_SHARE = 0.05
#: Where less than that is left for long, as on a large machine in use, this share of what is free. Guess.
_FREE_SHARE = 0.25
#: What a process's limit is where that is its own memory and `spare_bytes`, for people.
FREE_LIMIT = "what it held when it began and the rest, which is what was free on the machine less a reserve"
#: The kernel's mark of the most pages, of files or not, that were resident at once; and pages in swap space.
_MARK, _SWAPPED = (re.compile(rb"^%s:\s+(\d+) kB" % name, re.MULTILINE) for name in (b"VmHWM", b"VmSwap"))


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

    Nothing may take more: where memory runs out, the kernel ends whichever process it likes. The reserve is 5% of the
    machine's memory, and a quarter of what is free at most: a large machine in use has less than 5% free.
    """
    free = available_bytes()
    if free is None:
        return None
    return free - min(round(RESERVE_SHARE * host_memory_bytes()), round(_FREE_SHARE * free))


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
    return MemoryUse(*_sums(_status(pid), ANONYMOUS, _FILE))


class PeakMemory:
    """What a process takes at most between looks, by the kernel's mark: nothing is too short for it.

    The mark (VmHWM) counts pages of files too. The larger number of them at the two looks is taken off. Pages of a file
    that was mapped and unmapped again between two looks count as anonymous: the kernel keeps no mark without them, and
    if they were left out, anonymous memory that was taken and given back between two looks would be missed.

    Args:
        pid: The process.
        resets: Whether a look lowers a mark above what the process has now, so that a later and lower peak shows: for
            one that looks at its own process. The maximum resident set size that the system tells of it falls too.
    """

    def __init__(self, pid: int, *, resets: bool = False) -> None:
        self._pid, self._resets = pid, resets
        self._last: tuple[int, int, int] | None = None

    def look(self) -> MemoryUse:
        """Returns the most of each that is known since the last look, at least what there is now."""
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
        """Returns the mark, lowered to what is there now where the kernel lets it (proc_pid_clear_refs(5))."""
        try:
            with open(f"/proc/{self._pid}/clear_refs", "wb") as file:
                file.write(b"5")
        except OSError:
            return mark
        return _sums(_status(self._pid), _MARK)[0]


def _status(pid: int) -> bytes:
    """Returns the kernel's figures of a process; none once it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _sums(status: bytes, *patterns: re.Pattern[bytes]) -> list[int]:
    """Returns the bytes of the lines that each pattern finds."""
    return [1024 * sum(map(int, pattern.findall(status))) for pattern in patterns]


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
