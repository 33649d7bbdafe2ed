"""A tune that is asked to end now, with the best that it has measured: by a file named `stop` in its folder."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Whoever makes this file in the folder of a running tune, such as by `touch`, ends it.
STOP_FILE = "stop"
#: Seconds between two looks for the file. Guess: a stop should be felt at once.
_POLL_S = 0.2
_ASKED = "a file named stop is in the tune's folder"


class StopAsked(KeyboardInterrupt):
    """Someone made the file: what runs ends as by Ctrl-C, and the tune finishes with what it has measured."""


def ask_to_stop(folder: Path) -> None:
    """Asks the tune in `folder` to end now; it removes the file once it has (`forget_stop`)."""
    (folder / STOP_FILE).touch()


def stop_is_asked(folder: Path) -> bool:
    """Returns whether the tune in `folder` is asked to end."""
    return (folder / STOP_FILE).exists()


def forget_stop(folder: Path) -> None:
    """Takes back that the tune in `folder` is asked to end: it has ended."""
    (folder / STOP_FILE).unlink(missing_ok=True)


@contextmanager
def stopped_by_file(folder: Path) -> Iterator[None]:
    """Raises `StopAsked` inside, once, as soon as `folder` has the file, whatever runs; on the main thread alone.

    Python delivers signals, by which that works, to no other thread: there, a tune looks between its trials
    (`Runner`). A thread that is made here looks for the file, and sends this process SIGUSR1.
    """
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield
        return
    done = threading.Event()

    def look() -> None:
        while not done.wait(_POLL_S):
            if stop_is_asked(folder):
                signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
                return

    before = signal.signal(signal.SIGUSR1, _raise)
    thread = threading.Thread(target=look, name="stop-file", daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, StopAsked) or not stop_is_asked(folder):
            raise
        raise StopAsked(_ASKED) from interrupt  # a library has put an exception of its own in the place of ours
    finally:
        signal.signal(signal.SIGUSR1, lambda number, frame: None)  # one that comes now is too late
        done.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def _raise(number: int, frame: object) -> None:
    raise StopAsked(_ASKED)
