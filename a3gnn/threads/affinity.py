"""The cores that a thread may run on, on systems that can report and set them: Linux."""

from __future__ import annotations

import functools
import os
from contextlib import suppress

from a3gnn.storage.host_limits import cpu_limit

_SYSTEM_CAN = hasattr(os, "sched_setaffinity")


def cores() -> frozenset[int]:
    """Returns the cores that the calling thread may run on; none if the system doesn't report them."""
    return frozenset(os.sched_getaffinity(0)) if _SYSTEM_CAN else frozenset()


def available_cores() -> int:
    """Returns the number of cores that this process may use, by its affinity and the least quota of its groups."""
    count, quota = len(cores()) or os.cpu_count() or 1, cpu_limit()
    return count if quota is None else min(count, max(1, int(quota)))


@functools.cache
def home() -> frozenset[int]:
    """Returns the calling thread's cores at the first call; call it before the first thread is pinned."""
    return cores()


def pin(wanted: frozenset[int], thread: int = 0) -> None:
    """Restricts a thread to the cores `wanted`; does nothing if `wanted` is empty.

    Errors, such as for a thread that has ended, are ignored: the place of a thread affects only its speed.

    Args:
        wanted: Cores.
        thread: Its id from `threading.get_native_id`; 0 is the calling thread.
    """
    if wanted and _SYSTEM_CAN:
        with suppress(OSError):
            os.sched_setaffinity(thread, wanted)
