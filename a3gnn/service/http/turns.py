"""`Turns`: a bound on requests that do heavy work, and on requests that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from a3gnn.service.http.problems import busy


class Turns:
    """Runs at most `at_once` requests; `waiting` more may wait, and all others are refused.

    A waiting request holds one of the server's 40 threads. The three kinds of work together leave half of them.

    Args:
        what: The work, for the message, such as "look at graphs".
        at_once: Most requests that do the work.
        waiting: Most requests that wait.
    """

    def __init__(self, what: str, at_once: int = 1, waiting: int = 6) -> None:
        self._what, self._at_once, self._waiting = what, at_once, waiting
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._turns = threading.BoundedSemaphore(at_once)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Waits for a turn, which lasts as long as the context.

        Raises:
            ProblemDetails: Too many requests wait already.
        """
        if not self._places.acquire(blocking=False):
            raise busy(
                f"the server takes at most {self._at_once + self._waiting} requests at a time to {self._what}, of "
                f"which {self._waiting} wait"
            )
        try:
            with self._turns:
                yield
        finally:
            self._places.release()
