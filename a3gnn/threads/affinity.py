"""The cores that a thread may run on, where the system tells and lets itself be told: Linux."""

from __future__ import annotations

import functools
import os
from contextlib import suppress

from a3gnn.storage.host_memory import cpu_limit

_SYSTEM_CAN = hasattr(os, "sched_setaffinity")


def cores() -> frozenset[int]:
    """Returns the cores that the calling thread may run on; none where the system doesn't tell."""
    return frozenset(os.sched_getaffinity(0)) if _SYSTEM_CAN else frozenset()


def available_cores() -> int:
    """Returns the cores that this process may run on: its affinity, and the least quota of its control groups."""
    count, quota = len(cores()) or os.cpu_count() or 1, cpu_limit()
    return count if quota is None else min(count, max(1, int(quota)))


@functools.cache
def home() -> frozenset[int]:
    """Returns the calling thread's cores at the first call: whoever pins threads asks before the first of them."""
    return cores()


def pin(wanted: frozenset[int], thread: int = 0) -> None:
    """Lets a thread run on `wanted` alone; no cores leave it where it is.

    A system that refuses, or a thread that has ended, changes nothing: where a thread runs is a matter of time only.

    Args:
        wanted: Cores.
        thread: As `threading.get_native_id` names it; 0 is the calling one.
    """
    if wanted and _SYSTEM_CAN:
        with suppress(OSError):
            os.sched_setaffinity(thread, wanted)
