"""Server-sent events: a job's log as it grows, to any number of readers, each from where it left off."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

from anyio import to_thread

from a3gnn.service.event_log import Event, EventLog

#: Seconds between two looks at a log that has readers, and after which a silent stream says that it lives. Guesses.
_POLL_S, _SILENT_S = 0.2, 15.0


class EventStreams:
    """Follows the logs that have readers; a log that does not grow costs each a look at its size, five times a second.

    Attributes:
        readers: How many there are.
    """

    def __init__(self) -> None:
        self.readers = 0
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Ends all streams."""
        self._closed.set()

    async def follow(self, log: EventLog, place: int, is_active: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yields what a reader gets from `place` on, until the job has ended, for now.

        Args:
            log: The job's.
            place: The id of the last event that the reader has, or 0.
            is_active: Whether the job waits or runs; asked in another thread where its log is silent.
        """
        self.readers += 1
        try:
            said = time.monotonic()
            yield b"retry: 1000\n\n"
            while not self._closed.is_set():
                last = None
                if log.size > place:
                    for event in log.since(place):
                        place, last = event.id, event
                        yield _encoded(event)
                    said = time.monotonic()
                if last is not None and last.is_last:
                    return
                if time.monotonic() > said + _SILENT_S:
                    said = time.monotonic()
                    if not await to_thread.run_sync(is_active):
                        return
                    yield b": \n\n"
                await asyncio.sleep(_POLL_S)
        finally:
            self.readers -= 1


def _encoded(event: Event) -> bytes:
    return f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event.data)}\n\n".encode()
