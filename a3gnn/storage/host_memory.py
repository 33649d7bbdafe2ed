"""How much RAM this process may fill, page cache included, and how much of it nobody needs."""

from __future__ import annotations

import os


def host_memory_bytes() -> int:
    """Returns the machine's memory, or the control group's limit if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):
            continue
    return total


def available_bytes() -> int | None:
    """Returns what programs may take without swapping, on this machine or in its control group; None if not known."""
    found = [bytes_left for bytes_left in (_of_machine(), _of_group()) if bytes_left is not None]
    return min(found, default=None)


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None


def _of_group() -> int | None:
    folder = "/sys/fs/cgroup/memory"
    try:
        with open(f"{folder}.max", encoding="ascii") as file:
            limit = int(file.read())  # "max" is no number: there is no limit
        with open(f"{folder}.current", encoding="ascii") as file:
            current = int(file.read())
        with open(f"{folder}.stat", encoding="ascii") as file:
            stat = dict(line.split() for line in file)
        # The page cache, shared memory aside, is dropped when there is need.
        return limit - current + int(stat["file"]) - int(stat["shmem"])
    except (OSError, ValueError, KeyError):
        return None
