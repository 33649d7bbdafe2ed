"""Caches of rows in host memory: static ones, a dynamic one, and the counts of their hits and misses.

The rows of a static cache are chosen before training, and all threads read them at once. A policy replaces the rows of
a dynamic cache at every query.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.features import cache_kernels as kernels
from a3gnn.features.cache_kernels import redirect_slots, store_rows
from a3gnn.features.row_table import RowTable, row_like
from a3gnn.features.slot_map import FixedMap, SlotMap, slots_that_fit
from a3gnn.features.stored_rows import DenseRows, SparseRows
from a3gnn.threads import pool

AnyRows = TypeVar("AnyRows", DenseRows, SparseRows)


class CacheStats(NamedTuple):
    """A cache's counts since its store was opened."""

    policy: str  # the policy, or none without a cache
    queries: int = 0  # reads so far: one per mini-batch
    hits: int = 0  # rows that were cached
    misses: int = 0  # rows that were not
    overhead_s: float = 0.0  # seconds spent on look-up and update, the copies of admitted rows included
    read_bytes: int = 0  # bytes that the policy ahead read from the disk

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
    """

    def __init__(self, policy: str) -> None:
        self._lock = threading.Lock()
        self._stats = CacheStats(policy)

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

    def add_read(self, nbytes: int) -> None:
        """Counts a read of `nbytes` from the disk."""
        with self._lock:
            self._stats = self._stats._replace(read_bytes=self._stats.read_bytes + nbytes)

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


class HitsAndMisses(NamedTuple):
    """Ids split into a tier's hits and misses, each in order; all int32."""

    positions: NDArray[np.int32]  # rows of the hits in the tier
    hits_where: NDArray[np.int32]  # rows of the hits in the output
    misses: NDArray[np.int32]  # ids
    misses_where: NDArray[np.int32]  # rows of the misses in the output


@dataclass(frozen=True, slots=True, eq=False)
class Tier(Generic[AnyRows]):
    """Rows of some nodes, copied to faster memory."""

    position: NDArray[np.int32]  # int32, shape (num_nodes,): each node's position in `rows`, -1 for none
    rows: AnyRows  # copies of the nodes' rows

    @classmethod
    def of(cls, source: AnyRows, nodes: NDArray[np.int32], num_nodes: int) -> Self:
        """Returns the tier that holds the rows of `nodes` (distinct)."""
        return cls(FixedMap(nodes, num_nodes).position, source.take(nodes))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self.position.nbytes + self.rows.nbytes


class DenseTier(Tier[DenseRows]):
    """Dense rows, which are read by address."""

    __slots__ = ()

    def redirect(self, ids: NDArray[np.int32], table: RowTable) -> int:
        """Overwrites the addresses in `table`, the rows of `ids`, that the tier holds; returns their number.

        The tier must outlive the table.
        """
        array = self.rows.array
        hits = kernels.redirect_nodes(array.ctypes.data, array.strides[0], self.position, ids, table.addresses)
        return int(hits)


class SparseTier(Tier[SparseRows]):
    """Sparse rows, which are copied by position."""

    __slots__ = ()

    def split(self, ids: NDArray[np.int32], where: NDArray[np.int32]) -> HitsAndMisses:
        """Splits `ids`, destined for rows `where` of an output, into hits and misses."""
        return HitsAndMisses(*kernels.split(self.position, ids, where))


AnyTier = TypeVar("AnyTier", bound=Tier[Any])


class _FixedRows(Generic[AnyTier]):
    def __init__(self, tier: AnyTier, nodes: NDArray[np.int32], policy: str) -> None:
        self.cached = nodes
        self._tier = tier
        self._counter = StatsCounter(policy)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self._tier.nbytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead so far."""
        return self._counter.stats


class StaticCache(_FixedRows[DenseTier]):
    """A static cache of dense rows.

    Args:
        nodes: The cached nodes, int32, sorted, distinct.
        num_nodes: Nodes of the graph.
        policy: The policy that chose them, for `stats`.
    """

    def __init__(self, base: DenseRows, nodes: NDArray[np.int32], num_nodes: int, policy: str = "degree") -> None:
        super().__init__(DenseTier.of(base, nodes, num_nodes), nodes, policy)

    @contextmanager
    def serving(self, ids: NDArray[np.int32], table: RowTable) -> Iterator[int]:
        """Redirects the cached rows of `table` to the cache; yields their number (`DenseRowCache.serving`)."""
        begin = perf_counter()
        hits = self._tier.redirect(ids, table)
        self._counter.add(hits, len(ids) - hits, perf_counter() - begin)
        yield hits


class SparseStaticCache(_FixedRows[SparseTier]):
    """A static cache of sparse rows; the arguments are the same as for `StaticCache`."""

    def __init__(self, base: SparseRows, nodes: NDArray[np.int32], num_nodes: int, policy: str = "degree") -> None:
        super().__init__(SparseTier.of(base, nodes, num_nodes), nodes, policy)

    @property
    def rows(self) -> SparseRows:
        """The cached rows."""
        return self._tier.rows

    def split(self, ids: NDArray[np.int32], where: NDArray[np.int32]) -> HitsAndMisses:
        """Splits `ids`, destined for rows `where` of an output, into hits and misses, and counts them."""
        begin = perf_counter()
        split = self._tier.split(ids, where)
        self._counter.add(len(split.positions), len(split.misses), perf_counter() - begin)
        return split


class DynamicCache:
    """Dense rows in host memory, as stored, of the nodes that a policy keeps (BGL, section 3.2).

    A query is a look-up, the caller's pass over the rows by address, and the admission of the misses. Queries of all
    threads run one at a time, first come, first served, so no row is replaced while another query reads it.

    Args:
        slots: Maps nodes to rows; at least one slot.
        base: All rows; cached rows have the same width and dtype.
    """

    def __init__(self, slots: SlotMap, base: DenseRows) -> None:
        like = row_like(base.array)
        self.cached = np.empty(0, dtype=np.int32)
        self._slots = slots
        self._rows = np.empty((slots.num_slots, len(like)), dtype=like.dtype)
        self._lock = FairLock()
        self._counter = StatsCounter(slots.policy)

    @classmethod
    def that_fits(cls, base: DenseRows, cache_bytes: int, num_nodes: int, policy: str) -> Self | None:
        """Returns the largest cache of at most `cache_bytes`, maps included; None if not one row fits."""
        num_slots = slots_that_fit(policy, cache_bytes, num_nodes, base.row_bytes)
        return cls(SlotMap(policy, num_slots, num_nodes), base) if num_slots else None

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the maps."""
        return self._rows.nbytes + self._slots.nbytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead so far."""
        return self._counter.stats

    @contextmanager
    def serving(self, ids: NDArray[np.int32], table: RowTable) -> Iterator[int]:
        """Waits for earlier queries, then wraps one read of `table` (`DenseRowCache.serving`).

        On exit, misses are admitted: their rows are copied from their addresses in `table`.
        """
        with self._lock.held():
            begin = perf_counter()
            found, hits = self._slots.look_up(ids)
            redirect_slots(self._rows.ctypes.data, self._rows.strides[0], found, table.addresses)
            looked_up = perf_counter()
            yield hits
            read = perf_counter()
            self._admit(ids, found, table)
            self._counter.add(hits, len(ids) - hits, perf_counter() - read + looked_up - begin)

    def _admit(self, ids: NDArray[np.int32], found: NDArray[np.int32], table: RowTable) -> None:
        # Only misses are admitted, so no row is copied from within this cache.
        missed, targets = self._slots.admit(ids, found)
        kernel = partial(store_rows, table.addresses, missed, targets, self._rows)
        pool.in_chunks(kernel, len(missed), pool.grain(1, self._rows.strides[0]))


class FairLock:
    """A lock that threads get in the order of their requests; `threading.Lock` promises no order.

    BGL queues a cache's operations for one processing thread (section 3.2.3). Here each thread serves its own query
    while it holds the lock: operations run in the same order, and no query moves to another thread.
    """

    def __init__(self) -> None:
        self._waiting: deque[threading.Lock] = deque()
        self._guard = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Waits for the lock, and holds it until the context ends; not reentrant."""
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            self._waiting.append(mine)
            if self._waiting[0] is mine:
                mine.release()
        try:
            mine.acquire()
            yield
        finally:
            # A thread that is interrupted while it waits must leave the queue, wherever it stands.
            with self._guard:
                first = self._waiting[0] is mine
                self._waiting.remove(mine)
                if first and self._waiting:
                    self._waiting[0].release()
