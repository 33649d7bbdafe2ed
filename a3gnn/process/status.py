"""How a process ended, in words, and whether the kernel ended it for want of memory."""

from __future__ import annotations

import signal
from pathlib import Path

from a3gnn.storage.control_groups import own_memory_groups

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
