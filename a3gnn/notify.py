"""`listener`: who is told what a call of Python's does meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from a3gnn.errors import UsageError

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
