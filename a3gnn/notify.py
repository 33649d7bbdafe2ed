"""`listener`: the function that receives progress messages of a Python call; `ConversionProgress`: such messages."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

from a3gnn.errors import UsageError
from a3gnn.units import format_duration

#: Seconds after which a waiting user gets the reason. Guess.
_PATIENCE_S = 10.0


def listener(notify: Callable[[str], None] | None) -> Callable[[str], None]:
    """Returns `notify`; for None, a function that prints each line in IPython and ignores it elsewhere.

    Raises:
        UsageError: `notify` is not callable.
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
    """Calls `notify(line)` once, in another thread, if the body takes more than some seconds."""
    timer = threading.Timer(_PATIENCE_S, notify, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class ConversionProgress:
    """Reports the progress of each stage and the time left.

    It reports at most every few seconds, so that short conversions report nothing.

    Args:
        say: Called with each line; None reports nothing.
        period_s: Seconds between two lines, and before the first.
    """

    def __init__(self, say: Callable[[str], None] | None = None, period_s: float = 5.0) -> None:
        self._say = say
        self._period_s = period_s
        self._due = monotonic() + period_s
        self._stage, self._began, self._share = "", 0.0, 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Reports that `stage` (`drawing edges`) has finished `done` of `total` steps, if a report is due."""
        now, share = monotonic(), done / max(total, 1)
        if stage != self._stage:  # it has just begun, or its first step is done
            self._stage, self._began, self._share = stage, now, share
        if self._say is not None and now >= self._due:
            gained = share - self._share
            left = f", {format_duration((now - self._began) * (1 - share) / gained)} left of it" if gained > 0 else ""
            self._say(f"{stage}: {share:.0%}{left}")
            self._due = now + self._period_s


def _nobody(line: str) -> None:
    """Ignores `line`."""
