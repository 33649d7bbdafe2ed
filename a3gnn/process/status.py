"""How a process ended, in words, and whether the kernel ended it for want of memory."""

from __future__ import annotations

import signal
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
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
    """Returns a count that rises where the kernel kills a process for want of memory: of the machine, or of this group.

    It stays 0 where the kernel does not say.
    """
    return sum(_count(path) for path in {Path("/proc/vmstat"), *_group_files()})


def _group_files() -> list[Path]:
    """Returns the files in which this process' control groups, of version 1 and 2, may count such kills."""
    found = [_GROUPS / "memory.events", _GROUPS / "memory" / "memory.oom_control"]
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found.append(_GROUPS / path.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            found.append(_GROUPS / "memory" / path.lstrip("/") / "memory.oom_control")
    return found


def _count(path: Path) -> int:
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0
