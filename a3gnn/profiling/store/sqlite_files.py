"""SQLite files that several processes make and open at the same time."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds that whoever finds a file locked waits for it.
PATIENCE_SECONDS = 60
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.25
#: SQLite's primary result codes for what another connection holds.
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def make_whole(path: Path, fill: Callable[[Path], None]) -> None:
    """Makes the database at `path`, where there is none: it appears with all that `fill` puts into it, or not at all.

    Of several processes that do so at once, the first one's is taken. Where the file system has no links nothing is
    made.

    Args:
        path: The file.
        fill: Fills a new database at the path that it is given, and closes it.

    Raises:
        OSError: The folder can't be written.
    """
    if path.exists():
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
        draft = Path(scratch) / path.name
        fill(draft)
        with suppress(OSError):  # another process was first, or there are no links here
            os.link(draft, path)


def write_ahead(connection: sqlite3.Connection) -> None:
    """Has SQLite write ahead (readers beside a writer, no torn rows) and reach the disk at every commit."""
    with closing(connection.cursor()) as cursor:
        # A change of the mode needs the file alone, and is refused at once, whatever the connection's timeout.
        if patiently(lambda: cursor.execute("PRAGMA journal_mode").fetchone())[0] != "wal":
            patiently(lambda: cursor.execute("PRAGMA journal_mode=WAL"))
        cursor.execute("PRAGMA synchronous=FULL")


def patiently(function: Callable[[], T]) -> T:
    """Returns what `function` returns; while it finds the database locked it is called again, for a minute at most."""
    end, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE_S
    while True:
        try:
            return function()
        except Exception as error:
            if not _is_held(error) or time.monotonic() > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _is_held(error: Any) -> bool:
    cause = getattr(error, "orig", error)  # SQLAlchemy wraps the driver's error
    return isinstance(cause, sqlite3.OperationalError) and cause.sqlite_errorcode & 0xFF in _HELD
