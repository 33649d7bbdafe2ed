"""What was asked of graph servers so far, counted from any thread."""

from __future__ import annotations

import threading
from typing import NamedTuple

from a3gnn.units import count, format_duration, format_size


class Traffic(NamedTuple):
    """Counts since a graph's parts were opened.

    Attributes:
        requests: Requests that were answered.
        bytes_sent: Bytes of these requests, without what gRPC adds.
        bytes_received: Bytes of their answers, likewise.
        retries: Requests that were sent again.
        waited_s: Seconds for which threads waited for answers, all threads together.
    """

    requests: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    retries: int = 0
    waited_s: float = 0.0

    def since(self, before: Traffic) -> Traffic:
        """Returns what was counted after `before`."""
        return Traffic(
            self.requests - before.requests,
            self.bytes_sent - before.bytes_sent,
            self.bytes_received - before.bytes_received,
            self.retries - before.retries,
            self.waited_s - before.waited_s,
        )

    @property
    def text(self) -> str:
        """The counts for people."""
        again = f", {count(self.retries, 'retry') if self.retries == 1 else f'{self.retries:,} retries'}"
        return (
            f"{count(self.requests, 'request')} to graph servers{again if self.retries else ''}: "
            f"{format_size(self.bytes_sent)} sent, {format_size(self.bytes_received)} received, threads waited "
            f"{format_duration(self.waited_s)}"
        )


class TrafficCounter:
    """Counts requests. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traffic = Traffic()

    def answered(self, sent: int, received: int) -> None:
        """Counts a request that was answered."""
        with self._lock:
            was = self._traffic
            self._traffic = was._replace(
                requests=was.requests + 1,
                bytes_sent=was.bytes_sent + sent,
                bytes_received=was.bytes_received + received,
            )

    def waited(self, waited_s: float) -> None:
        """Counts seconds for which a thread waited for an answer, whether it came or not."""
        with self._lock:
            self._traffic = self._traffic._replace(waited_s=self._traffic.waited_s + waited_s)

    def retried(self) -> None:
        """Counts a request that is sent again."""
        with self._lock:
            self._traffic = self._traffic._replace(retries=self._traffic.retries + 1)

    @property
    def traffic(self) -> Traffic:
        """The counts so far, all of one moment."""
        return self._traffic
