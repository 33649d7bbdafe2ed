"""`EventLog`: the events of a job, a JSON object per line, which readers follow from any place."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: Statuses that end a job's log. A resumed job appends to it again.
LAST = ("finished", "stopped", "failed")
#: Most bytes of a line.
_CHUNK = 1 << 20


class LogLine(NamedTuple):
    """One line of the log.

    Attributes:
        id: The byte at which the next line begins, from which a reader continues.
        kind: line (of output), trial (one has ended) or status.
        data: The text, the trial's number or the status; and the time in seconds since 1970.
    """

    id: int
    kind: str
    data: dict[str, Any]

    @property
    def is_last(self) -> bool:
        """Whether the job has ended with this event."""
        return self.kind == "status" and self.data.get("status") in LAST


class EventLog:
    """The file `events.jsonl` of a job. Its server and its process append to it, each line with one call.

    Args:
        path: The file, made by the first event.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, kind: str, **data: Any) -> None:
        """Appends an event with the current time."""
        line = json.dumps({"kind": kind, "data": {**data, "time": round(time.time(), 3)}}) + "\n"
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a crash cut the last line short
            os.write(file, (b"\n" if torn else b"") + line.encode())
        finally:
            os.close(file)

    @property
    def size(self) -> int:
        """Bytes of the file, or 0 if there is none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def since(self, place: int) -> Iterator[LogLine]:
        """Yields the events after `place`, an event's id or 0; lines that a crash cut short are left out.

        A place in the middle of a line counts as the line's end.
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
