"""What a cache has done so far, counted from any thread."""

from __future__ import annotations

import threading
from typing import NamedTuple


class CacheStats(NamedTuple):
    """A cache's counts since its store was opened.

    Attributes:
        policy: The policy, or none without a cache.
        queries: Reads that were served: one per mini-batch.
        hits: Rows that were cached.
        misses: Rows that were not.
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
        """Hits per row read, in [0, 1]; 0 before the first."""
        return self.hits / max(self.hits + self.misses, 1)

    @property
    def overhead_ms(self) -> float:
        """Mean milliseconds of overhead per query (BGL, section 3.2.1: amortised overhead)."""
        return self.overhead_s * 1e3 / max(self.queries, 1)


NO_CACHE = CacheStats("none")


class StatsCounter:
    """Counts what a cache does. Thread-safe.

    Args:
        policy: The cache's policy.
        reason: Why that one, where `auto` chose it.
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
        """The counts so far, all of one moment."""
        return self._stats
