"""The interface of a cache on the host to the store that reads through it, and the counts of its hits and misses."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.rows.table import RowTable


class CacheStats(NamedTuple):
    """A cache's counts since its store was opened.

    Attributes:
        policy: The policy, or none without a cache.
        queries: Reads so far: one per mini-batch.
        hits: Rows that were cached.
        misses: Rows that were not.
        overhead_s: Seconds spent on look-up and update, the copies of admitted rows included.
        reason: Why `auto` chose the policy; "" if the user named it.
    """

    policy: str
    queries: int = 0
    hits: int = 0
    misses: int = 0
    overhead_s: float = 0.0
    reason: str = ""

    @property
    def hit_rate(self) -> float:
        """Hits per row read, in [0, 1]; 0 before the first read."""
        return self.hits / max(self.hits + self.misses, 1)

    @property
    def overhead_ms(self) -> float:
        """Mean milliseconds of overhead per query (BGL, section 3.2.1: amortised overhead)."""
        return self.overhead_s * 1e3 / max(self.queries, 1)


NO_CACHE = CacheStats("none")


class StatsCounter:
    """Counts hits, misses and overhead. Thread-safe.

    Args:
        policy: The cache's policy.
        reason: Why `auto` chose the policy; "" if the user named it.
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
        """The counts so far; all from one moment."""
        return self._stats


class RowCache(Protocol):
    """Rows in faster memory than a store's own."""

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes of a static cache, int32, sorted; none for a dynamic cache, whose rows are replaced."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the maps."""

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead so far."""


class DenseRowCache(RowCache, Protocol):
    """A cache of dense rows, which are read by address."""

    def serving(self, ids: NDArray[np.int32], table: RowTable) -> AbstractContextManager[int]:
        """Wraps one read of `table`; its cached rows are redirected to the cache.

        Args:
            ids: The rows' nodes, int32, in range.
            table: Addresses without this cache; the addresses of cached rows are overwritten on entry.

        Yields:
            The number of cached rows.
        """
