"""What was asked of graph servers so far, counted from any thread."""

from __future__ import annotations

import operator
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
        return Traffic(*map(operator.sub, self, before))

    @property
    def text(self) -> str:
        """The counts for people."""
        again = ", 1 retry" if self.retries == 1 else f", {self.retries:,} retries"
        return (
            f"{count(self.requests, 'request')} to graph servers{again if self.retries else ''}: "
            f"{format_size(self.bytes_sent)} sent, {format_size(self.bytes_received)} received, threads waited "
            f"{format_duration(self.waited_s)}"
        )


class TrafficCounter:
    """Counts what is asked. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traffic = Traffic()

    def add(self, more: Traffic) -> None:
        """Adds `more` to the counts."""
        with self._lock:
            self._traffic = Traffic(*map(operator.add, self._traffic, more))

    @property
    def traffic(self) -> Traffic:
        """The counts so far, all of one moment."""
        return self._traffic
