"""What a cache has done so far, counted from any thread."""

from __future__ import annotations

import threading
from typing import NamedTuple


class CacheStats(NamedTuple):
    """A cache's figures since its store was opened.

    Attributes:
        policy: The policy, or none without a cache.
        queries: Reads that were served: one a mini-batch.
        hits: Rows that the cache had.
        misses: Rows that it had not.
        overhead_s: Seconds spent on look-up and update, the copies of admitted rows included.
        reason: Why `auto` chose the policy; empty where it was asked for by name.
    """

    policy: str
    queries: int = 0
    hits: int = 0
    misses: int = 0
    overhead_s: float = 0.0
    reason: str = ""

    @property
    def hit_rate(self) -> float:
        """Hits a row read, in [0, 1]; 0 before the first."""
        return self.hits / max(self.hits + self.misses, 1)

    @property
    def overhead_ms(self) -> float:
        """Milliseconds of overhead a query, amortised: the mean (BGL, section 3.2.1)."""
        return self.overhead_s * 1e3 / max(self.queries, 1)


NO_CACHE = CacheStats("none")


class Tally:
    """Adds a cache's figures up. Safe to use from several threads.

    Args:
        policy: Of the cache.
        reason: Why that one, where it was chosen by measurement.
    """

    def __init__(self, policy: str, reason: str = "") -> None:
        self._lock = threading.Lock()
        self._stats = CacheStats(policy, reason=reason)

    def add(self, hits: int, misses: int, overhead_s: float) -> None:
        """Counts one query."""
        with self._lock:
            was = self._stats
            self._stats = was._replace(
                queries=was.queries + 1,
                hits=was.hits + hits,
                misses=was.misses + misses,
                overhead_s=was.overhead_s + overhead_s,
            )

    @property
    def stats(self) -> CacheStats:
        """The figures of the queries so far; of all of them at one moment."""
        return self._stats
