"""`Turns`: a bound on requests that do heavy work, and on those that wait to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from a3gnn.service.problems import busy


class Turns:
    """Lets in so many at once; some more wait, and all others are told to come later.

    Whoever waits holds one of the server's 40 threads, which all other requests need too.

    Args:
        what: What they do, for the message.
        at_once: So many do it.
        waiting: So many wait.
    """

    def __init__(self, what: str, at_once: int, waiting: int) -> None:
        self._what, self._at_once, self._waiting = what, at_once, waiting
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._turns = threading.BoundedSemaphore(at_once)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Waits for a turn, and yields in it.

        Raises:
            Problem: Too many wait already.
        """
        if not self._places.acquire(blocking=False):
            raise busy(
                f"at most {self._at_once + self._waiting} requests that {self._what} are taken at once, "
                f"{self._waiting} of which wait"
            )
        try:
            with self._turns:
                yield
        finally:
            self._places.release()
