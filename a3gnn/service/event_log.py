"""`EventLog`: what happens to a job, a JSON object per line, which anyone may follow from any place on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: Statuses with which a job's log ends, for now: it may be resumed.
LAST = ("finished", "stopped", "failed")
#: Bytes that are read at once.
_CHUNK = 1 << 20


class LogLine(NamedTuple):
    """One line of the log.

    Attributes:
        id: Where the next one begins, in bytes: a reader goes on from there.
        kind: line (of output), trial (one has ended) or status.
        data: text, trial (its number) or status, and the time, in seconds since 1970.
    """

    id: int
    kind: str
    data: dict[str, Any]

    @property
    def is_last(self) -> bool:
        """Whether the job has ended with it."""
        return self.kind == "status" and self.data.get("status") in LAST


class EventLog:
    """The file `events.jsonl` of a job, to which its server and its process append, a line with one call each.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, kind: str, **data: Any) -> None:
        """Adds an event of now."""
        line = json.dumps({"kind": kind, "data": {**data, "time": round(time.time(), 3)}}) + "\n"
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # by a crash
            os.write(file, (b"\n" if torn else b"") + line.encode())
        finally:
            os.close(file)

    @property
    def size(self) -> int:
        """Bytes that there are, or 0 without a file."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def since(self, place: int) -> Iterator[LogLine]:
        """Yields the events from `place` on, an event's id or 0; lines that a crash cut short are left out.

        A place in the middle of a line is one at its end.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(max(place - 1, 0))
            if place > 0 and file.read(1) != b"\n":
                file.readline(_CHUNK)
            while (line := file.readline(_CHUNK)).endswith(b"\n"):
                try:
                    fields = json.loads(line)
                    yield LogLine(file.tell(), fields["kind"], fields["data"])
                except (ValueError, KeyError, TypeError):
                    continue
