"""How a command ends, where threads may have been left that never come back."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

#: What the names of the threads begin with that work for trainers (`a3gnn.hybrid.trainers`).
TRAINERS = "a3gnn-trainer"


def end(code: int, *, at_once: bool = False) -> NoReturn:
    """Ends the process with `code`; at once where a trainer's thread is left, as Python would wait for what it holds.

    Args:
        code: Exit code.
        at_once: Whether to leave out what Python does at its end in any case: there gloo's threads abort one process in
            some hundreds, which is done.

    Raises:
        SystemExit: It is not to end at once, and no such thread is left.
    """
    if at_once or any(thread.name.startswith(TRAINERS) for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError, OSError):  # closed, or nobody reads it
                stream.flush()
        os._exit(code)
    sys.exit(code)
