"""Which threads a test has begun."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def begun_from_here() -> Callable[[], list[str]]:
    """Returns what tells the names of threads that were begun since and still run.

    A count of all threads would also fall by those that an earlier test left, whenever they end.
    """
    before = set(threading.enumerate())
    return lambda: [thread.name for thread in threading.enumerate() if thread not in before]


def all_ended(begun: Callable[[], list[str]]) -> bool:
    """Waits up to a minute until the threads of `begun_from_here` have ended, and returns whether they have."""
    return happens(lambda: not begun())


def happens(condition: Callable[[], object]) -> bool:
    """Waits up to a minute for `condition`, and returns whether it holds."""
    last_s = time.monotonic() + 60
    while not condition() and time.monotonic() < last_s:
        time.sleep(0.01)
    return bool(condition())


@contextmanager
def uncollected() -> Iterator[None]:
    """Lets garbage be collected only where `gc.collect` is called."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
