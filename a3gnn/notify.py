"""Progress messages of calls that take long: `Message`, and `listener`, the function that receives them.

A message is a line of text, so any function of a string can receive it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any, Self

from a3gnn.errors import UsageError
from a3gnn.units import format_duration

#: Nielsen, "Usability Engineering" (1993), section 5.5: a delay of a tenth of a second goes unnoticed, and after ten
#: seconds a user must get the reason.
_UNNOTICED_S, PATIENCE_S = 0.1, 10.0
#: Seconds between two looks at what changes without a word: a file named stop, the log, the process or the answer of a
#: job, the database that other servers change. A change waits for half of them on average.
LOOK_S = 2 * _UNNOTICED_S


class Message(str):
    """A line of progress, with what more a receiver may show.

    Attributes:
        detail: Whether only `--verbose` shows it.
        more: Further lines that `--verbose` shows below it; "" without any.
        event: What a live display draws in its place; None without one.
    """

    detail: bool
    more: str
    event: Any

    def __new__(cls, text: str = "", *, detail: bool = False, more: str = "", event: Any = None) -> Self:
        """Returns the message `text`; an empty one has an event alone, and is never shown."""
        message = super().__new__(cls, text)
        message.detail, message.more, message.event = detail or not text, more, event
        return message


def detail(text: str) -> Message:
    """Returns a message that only `--verbose` shows."""
    return Message(text, detail=True)


def shown(line: str, verbose: bool = False) -> str:
    """Returns the text of `line` as a receiver shows it; "" if it does not show the line."""
    if not isinstance(line, Message):
        return line
    if verbose:
        return f"{line}\n{line.more}" if line.more else str(line)
    return "" if line.detail else str(line)


def with_details(notify: Callable[[str], None]) -> Callable[[str], None]:
    """Returns `notify`, marked to receive details and events, too: it decides itself what it shows."""
    notify.takes_details = True  # type: ignore[attr-defined]
    return notify


def listener(notify: Callable[[str], None] | None) -> Callable[[str], None]:
    """Returns a function that passes each line to `notify`, without details and events unless it takes them.

    For None it prints: in IPython to its cell, elsewhere to stderr.

    Raises:
        UsageError: `notify` is not callable.
    """
    if notify is not None:
        if not callable(notify):
            raise UsageError(f"notify must take a line of text, got {notify!r}; lambda line: None prints nothing")
        return notify if getattr(notify, "takes_details", False) else partial(_pass_on, notify)
    ipython = sys.modules.get("IPython")
    in_cell = ipython is not None and ipython.get_ipython() is not None
    return partial(_pass_on, partial(print, file=sys.stdout if in_cell else sys.stderr, flush=True))


@contextmanager
def waiting(notify: Callable[[str], None], line: str) -> Iterator[None]:
    """Calls `notify(line)` once, in another thread, if the body takes more than some seconds."""
    timer = threading.Timer(PATIENCE_S, notify, (line,))
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

    def say(self, line: str) -> None:
        """Reports `line` at once."""
        if self._say is not None:
            self._say(line)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Reports that `stage` (`drawing edges`) has finished `done` of `total` steps, if a report is due."""
        now, share = monotonic(), done / max(total, 1)
        if stage != self._stage:  # it has just begun, or its first step is done
            self._stage, self._began, self._share = stage, now, share
        if self._say is not None and now >= self._due:
            gained = share - self._share
            left = f", {format_duration((now - self._began) * (1 - share) / gained)} left" if gained > 0 else ""
            self._say(f"{stage}: {share:.0%}{left}")
            self._due = now + self._period_s


def _pass_on(notify: Callable[[str], None], line: str) -> None:
    """Calls `notify` with the text of `line`, unless it is a detail or an event."""
    if text := shown(line):
        notify(text)
