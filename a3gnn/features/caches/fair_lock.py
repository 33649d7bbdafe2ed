"""`FairLock`: serialises the queries of a cache, first come, first served."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class FairLock:
    """A lock that threads get in the order in which they asked for it; `threading.Lock` promises no order.

    BGL queues a cache's operations for one processing thread (section 3.2.3). Here each thread serves its own query
    while it holds the lock: operations run in the same order, and no query moves to another thread.
    """

    def __init__(self) -> None:
        self._waiting: deque[threading.Lock] = deque()
        self._guard = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Waits for the lock, and holds it as long as the context lasts; not reentrant."""
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            self._waiting.append(mine)
            if self._waiting[0] is mine:
                mine.release()
        try:
            mine.acquire()
            yield
        finally:
            # A thread that is interrupted while it waits leaves the queue from wherever it stands.
            with self._guard:
                first = self._waiting[0] is mine
                self._waiting.remove(mine)
                if first and self._waiting:
                    self._waiting[0].release()
