"""Which threads a test has begun."""

from __future__ import annotations

import threading
from collections.abc import Callable


def begun_from_here() -> Callable[[], list[str]]:
    """Returns what tells the names of threads that were begun since and still run.

    A count of all threads would also fall by those that an earlier test left, whenever they end.
    """
    before = set(threading.enumerate())
    return lambda: [thread.name for thread in threading.enumerate() if thread not in before]
