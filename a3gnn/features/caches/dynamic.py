"""`DynamicCache`: rows in RAM that a policy replaces at every query."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.caches.cache import CacheStats, StatsCounter
from a3gnn.features.caches.cache_kernels import redirect_slots, store_rows
from a3gnn.features.caches.slot_map import SlotMap, slots_that_fit
from a3gnn.features.rows.stored import DenseRows
from a3gnn.features.rows.table import RowTable, row_like
from a3gnn.threads import pool


class DynamicCache:
    """Dense rows in host memory, as stored, of the nodes that a policy keeps (BGL, section 3.2).

    A query is a look-up, the caller's pass over the rows by address, and the admission of the misses. Queries of all
    threads run one at a time, first come, first served, so no row is replaced while another query reads it.

    Args:
        slots: Maps nodes to rows; at least one slot.
        base: All rows; cached rows have the same width and dtype.
        reason: Why `auto` chose the policy; "" if the user named it.
    """

    def __init__(self, slots: SlotMap, base: DenseRows, reason: str = "") -> None:
        like = row_like(base.array)
        self.cached = np.empty(0, dtype=np.int32)
        self._slots = slots
        self._rows = np.empty((slots.num_slots, len(like)), dtype=like.dtype)
        self._lock = FairLock()
        self._counter = StatsCounter(slots.policy, reason)

    @classmethod
    def that_fits(cls, base: DenseRows, cache_bytes: int, num_nodes: int, policy: str, reason: str = "") -> Self | None:
        """Returns the largest cache of at most `cache_bytes`, maps included; None if not one row fits."""
        num_slots = slots_that_fit(policy, cache_bytes, num_nodes, base.row_bytes)
        return cls(SlotMap(policy, num_slots, num_nodes), base, reason) if num_slots else None

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
