"""How much RAM this process may fill, page cache included, and how much of it nobody needs."""

from __future__ import annotations

import os

from a3gnn.storage.control_groups import Group, memory_limits


def host_memory_bytes() -> int:
    """Returns the machine's memory, or the tightest limit of this process's control groups if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for _, limit in memory_limits())])


def available_bytes() -> int | None:
    """Returns what programs may take without swapping, on this machine and in its control groups; None if not known."""
    left = [_of_machine(), *(_of_group(group, limit) for group, limit in memory_limits())]
    return min((one for one in left if one is not None), default=None)


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None


def _of_group(group: Group, limit: int) -> int | None:
    """Returns what its limit leaves to programs.

    The page cache, shared memory aside, is dropped when there is need, and so are the kernel's caches of files' names,
    which version 2 counts too.
    """
    first = group.version == 1
    taken = group.number("memory.usage_in_bytes" if first else "memory.current")
    if taken is None:
        return None
    cache, shared = ("total_cache", "total_shmem") if first else ("file", "shmem")
    try:
        with open(group.folder / "memory.stat", encoding="ascii") as file:
            stat = dict(line.split() for line in file)
        names = 0 if first else int(stat.get("slab_reclaimable", 0))
        return max(0, limit - taken + int(stat[cache]) - int(stat[shared]) + names)
    except (OSError, ValueError, KeyError):
        return max(0, limit - taken)
