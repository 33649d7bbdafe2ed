"""When a state that a run goes on from is due to be written again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

#: Seconds between writings at least, and how many times the seconds of one at least. Guesses.
_PERIOD_S, _PERIOD_WRITES = 30.0, 20


class SaveTimer:
    """Spaces writings so that little work is lost where a run is killed, and little time goes into writing."""

    def __init__(self) -> None:
        self._next = perf_counter() + _PERIOD_S

    @property
    def is_due(self) -> bool:
        """Whether the last writing is old."""
        return perf_counter() >= self._next

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While entered, the state is written; the next writing is due the later the longer this one takes."""
        begin = perf_counter()
        yield
        now = perf_counter()
        self._next = now + max(_PERIOD_S, _PERIOD_WRITES * (now - begin))
