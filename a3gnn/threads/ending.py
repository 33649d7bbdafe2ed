"""Ends a command, even if there are threads that will never end."""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

#: Prefix of the names of threads that work for trainers (`a3gnn.hybrid.trainers`).
TRAINERS = "a3gnn-trainer"


def end(code: int, *, at_once: bool = False) -> NoReturn:
    """Ends the process with `code`; skips Python's shutdown if a trainer's thread is left, as it might never end.

    Args:
        code: Exit code.
        at_once: Whether to skip Python's shutdown in any case. In processes with gloo's threads, these abort it in one
            of some hundred runs, although the work is done.

    Raises:
        SystemExit: Python's shutdown is not skipped.
    """
    if at_once or any(thread.name.startswith(TRAINERS) for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError, OSError):  # closed, or a pipe without a reader
                stream.flush()
        os._exit(code)
    gc.freeze()  # Python's shutdown searches for garbage several times: a second where torch is imported
    sys.exit(code)
