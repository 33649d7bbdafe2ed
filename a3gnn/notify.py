"""`listener`: who is told what a call of Python's does meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

from a3gnn.errors import UsageError
from a3gnn.units import format_duration


class ConversionProgress:
    """Says how far each stage is, and how long it will take.

    At most every few seconds, so that short conversions say nothing.

    Args:
        say: Takes a line for people; None says nothing.
        period_s: Seconds between two lines, and before the first.
    """

    def __init__(self, say: Callable[[str], None] | None = None, period_s: float = 5.0) -> None:
        self._say = say
        self._period_s = period_s
        self._due = monotonic() + period_s
        self._stage, self._began, self._share = "", 0.0, 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Says that `stage` (`drawing edges`) has `done` of `total` steps behind it, if it is time to."""
        now, share = monotonic(), done / max(total, 1)
        if stage != self._stage:  # it has just begun, or its first step is done
            self._stage, self._began, self._share = stage, now, share
        if self._say is not None and now >= self._due:
            gained = share - self._share
            left = f", {format_duration((now - self._began) * (1 - share) / gained)} left of it" if gained > 0 else ""
            self._say(f"{stage}: {share:.0%}{left}")
            self._due = now + self._period_s


#: Seconds after which someone who waits is told for what. Guess.
_PATIENCE_S = 10.0


def listener(notify: Callable[[str], None] | None) -> Callable[[str], None]:
    """Returns `notify`; for None what prints each line where IPython runs, as in a notebook, and nobody elsewhere.

    Raises:
        UsageError: It can't be called.
    """
    if notify is not None:
        if not callable(notify):
            raise UsageError(f"notify must take a line of text, got {notify!r}; lambda line: None hears nothing")
        return notify
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return _nobody
    return partial(print, flush=True)


@contextmanager
def waiting(notify: Callable[[str], None], line: str) -> Iterator[None]:
    """Has `notify` take `line` once, from a thread of its own, where what is within takes some seconds."""
    timer = threading.Timer(_PATIENCE_S, notify, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _nobody(line: str) -> None:
    """Takes a line."""
