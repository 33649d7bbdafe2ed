"""A line in which a cache's queries wait, so that they are served one at a time, first come, first served."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Line:
    """Lets threads in one at a time, in the order in which they came; `threading.Lock` promises no order.

    BGL queues a cache's operations for one processing thread (section 3.2.3). Here each thread serves its own query
    when its turn comes: operations are in the same order, none is locked against another, and none crosses threads.
    """

    def __init__(self) -> None:
        self._waiting: deque[threading.Lock] = deque()
        self._guard = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for the calling thread's turn, which lasts as long as the context; not to be nested."""
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
            # A thread that is interrupted while it waits leaves the line from where it stands.
            with self._guard:
                first = self._waiting[0] is mine
                self._waiting.remove(mine)
                if first and self._waiting:
                    self._waiting[0].release()
