"""How much RAM this process may fill, page cache included, and how much of it nobody needs."""

from __future__ import annotations

import os

#: Of control groups, as this process sees its own: of version 2, or with a folder of version 1.
_GROUP = "/sys/fs/cgroup/memory"
#: What the page cache is called there, and shared memory, which it counts too: of version 1 and of version 2.
_FIRST, _SECOND = ("total_cache", "total_shmem"), ("file", "shmem")


def host_memory_bytes() -> int:
    """Returns the machine's memory, or the control group's limit if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in (f"{_GROUP}.max", f"{_GROUP}/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):
            continue
    return total


def available_bytes() -> int | None:
    """Returns what programs may take without swapping, on this machine or in its control group; None if not known."""
    second = _of_group(f"{_GROUP}.max", f"{_GROUP}.current", f"{_GROUP}.stat", *_SECOND)
    own = f"{_GROUP}/memory"
    first = _of_group(f"{own}.limit_in_bytes", f"{own}.usage_in_bytes", f"{own}.stat", *_FIRST)
    return min((left for left in (_of_machine(), second, first) if left is not None), default=None)


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None


def _of_group(limit_path: str, taken_path: str, stat_path: str, cache: str, shared: str) -> int | None:
    """Returns what the files say is left, where the last one calls the page cache so, and shared memory in it."""
    try:
        with open(limit_path, encoding="ascii") as file:
            limit = int(file.read())  # "max" is no number: there is no limit
        with open(taken_path, encoding="ascii") as file:
            taken = int(file.read())
        with open(stat_path, encoding="ascii") as file:
            stat = dict(line.split() for line in file)
        # The page cache, shared memory aside, is dropped when there is need.
        return limit - taken + int(stat[cache]) - int(stat[shared])
    except (OSError, ValueError, KeyError):
        return None
