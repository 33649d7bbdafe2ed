"""`AheadCache`: rows of the next mini-batches, read from the disk in blocks before they are needed."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import AHEAD_ROW_BYTES, CACHE_INDEX_BYTES
from a3gnn.config import AHEAD
from a3gnn.features import cache_kernels as kernels
from a3gnn.features.cache import CacheStats, StatsCounter
from a3gnn.features.row_table import RowTable
from a3gnn.features.stored_rows import DenseRows
from a3gnn.storage.blocks import BLOCK_BYTES, GAP_BYTES, READERS, BlockReader

#: Bytes and nodes of a chunk, which is read at once: two blocks per reader, and ids of few rows. Guess.
_CHUNK_BYTES, _CHUNK_NODES = 2 * READERS * BLOCK_BYTES, 1 << 18
#: Most mini-batches in flight; memory of their counts. Guess.
_PLACES = 1 << 12


class _InFlight(NamedTuple):
    """A mini-batch: its nodes, bytes of its sample, place in the counts, and the sweep's position where it is ready."""

    ids: NDArray[np.int32]
    nbytes: int
    place: int
    ready_at: int


class AheadCache:
    """Memory for the rows of mini-batches in flight. Any thread may read it; one thread at a time changes it.

    A sweep passes the file again and again, one chunk at a time, and reads the rows that mini-batches need and the
    cache does not hold. A mini-batch is ready once the sweep has passed all chunks. A row stays until the last
    mini-batch that needs it is finished; then another row takes its slot.

    It never decides what is read, only where: rows that it does not hold are read through the memory map.

    Args:
        base: All rows, on disk.
        num_nodes: Nodes of the graph.
        cache_bytes: Bytes for everything: rows, samples of mini-batches in flight, and the maps.

    Attributes:
        in_use: Held by the epoch that fills the cache.
        num_chunks: Chunks of the file.
        position: Chunks that the sweep has passed since the cache was opened.
        ready, finished: Mini-batches of this epoch so far; the ready ones include the finished ones.
    """

    def __init__(self, base: DenseRows, num_nodes: int, cache_bytes: int) -> None:
        room = self._free_bytes(base, num_nodes, cache_bytes)
        slots = min(num_nodes, room // (base.row_bytes + AHEAD_ROW_BYTES))
        self.cached = np.empty(0, dtype=np.int32)
        self.nbytes = cache_bytes
        self.in_use = threading.Lock()
        self._chunk = _chunk_nodes(base, num_nodes)
        self.num_chunks = -(-num_nodes // self._chunk)
        self.position = self.ready = self.finished = 0
        # Memory that is not written takes none, so rows and samples share the room.
        self._rows = np.empty((slots, base.array.shape[1]), dtype=base.array.dtype)
        self._row_bytes, self._room = base.row_bytes, room - AHEAD_ROW_BYTES * slots
        self._state, self._last = np.full(num_nodes, -1, dtype=np.int32), np.empty(slots, dtype=np.int32)
        self._free, self._num_free = np.arange(slots, dtype=np.int32)[::-1].copy(), slots
        self._released = deque[tuple[int, NDArray[np.int32]]]()
        self._flight = deque[_InFlight]()
        self._loads, self._frees = np.zeros(self.num_chunks, dtype=np.int64), np.zeros(_PLACES, dtype=np.int64)
        self._added = self._needed = self._distinct = self._samples = self._most_held = 0
        # Reentrant, as garbage collection may close a forgotten epoch, and so finish its mini-batches, within a read.
        self._guard, self._clock, self._reads = threading.RLock(), 0, Counter[int]()
        self._file = BlockReader(base.array)
        self._counter = StatsCounter(AHEAD)

    @classmethod
    def that_fits(cls, base: DenseRows, num_nodes: int, cache_bytes: int) -> Self | None:
        """Returns the cache of `cache_bytes`, maps and scratch included; None if not one row fits."""
        room = cls._free_bytes(base, num_nodes, cache_bytes)
        return cls(base, num_nodes, cache_bytes) if room >= base.row_bytes + AHEAD_ROW_BYTES else None

    @staticmethod
    def _free_bytes(base: DenseRows, num_nodes: int, cache_bytes: int) -> int:
        fixed = BlockReader.scratch_bytes(base.row_bytes) + 16 * _chunk_nodes(base, num_nodes) + 4 * 8 * _PLACES
        return cache_bytes - fixed - CACHE_INDEX_BYTES * num_nodes

    @property
    def stats(self) -> CacheStats:
        """Reads so far. A row is a miss for the mini-batch for which the disk is read."""
        return self._counter.stats

    @property
    def capacity(self) -> int:
        """Rows that it can hold beside the samples in flight."""
        return max(self._most_held, (self._room - self._samples) // self._row_bytes)

    @property
    def unready(self) -> int:
        """Mini-batches in flight whose rows the sweep has not passed."""
        return self.finished + len(self._flight) - self.ready

    def fits(self, ids: NDArray[np.int32], nbytes: int, lag: int) -> bool:
        """Returns whether another mini-batch fits at every position of the sweep until it is ready.

        Args:
            ids: The nodes whose rows it reads.
            nbytes: Bytes of its sample.
            lag: A mini-batch is finished, and its rows make room, by the time the `lag`-th after it is ready.
        """
        if not self._flight:
            return True
        if len(self._flight) >= _PLACES // 2:
            return False
        loads, frees, flight = self._loads.copy(), self._frees.copy(), list(self._flight)
        kernels.want_rows(self._state, self._last, ids, self._added % _PLACES, self._chunk, loads, frees, False)
        steps = np.array([max(one.ready_at - self.position, 0) for one in flight[lag:]], dtype=np.int64)
        freed = np.bincount(steps, frees[[one.place for one in flight[: len(steps)]]], self.num_chunks + 1)
        loaded = np.cumsum(np.roll(loads, -(self.position % self.num_chunks)))
        held = self._held + (loaded - np.cumsum(freed)[:-1]).max()
        return bool(max(held, self._most_held) * self._row_bytes + self._samples + nbytes <= self._room)

    def add(self, ids: NDArray[np.int32], nbytes: int) -> int:
        """Adds a mini-batch, whether it fits or not; returns how many of its rows the sweep must read for it."""
        place, before = self._added % _PLACES, int(self._loads.sum())
        kernels.want_rows(self._state, self._last, ids, place, self._chunk, self._loads, self._frees, True)
        due = np.flatnonzero(np.roll(self._loads, -(self.position % self.num_chunks)))
        ready_at = self.position + (int(due[-1]) + 1 if len(due) else 0)
        self._flight.append(
            _InFlight(ids, nbytes, place, max(ready_at, self._flight[-1].ready_at if self._flight else 0))
        )
        new = int(self._loads.sum()) - before
        self._added, self._samples = self._added + 1, self._samples + nbytes
        self._needed, self._distinct = self._needed + len(ids), self._distinct + new
        self._count_ready()
        return new

    def finish(self) -> None:
        """Removes the oldest mini-batch, and the rows that no other one needs."""
        one = self._flight.popleft()
        slots = kernels.release_rows(self._state, self._last, one.ids, one.place, self._chunk, self._loads)
        self._frees[one.place] = 0
        with self._guard:
            self._clock += 1
            self._released.append((self._clock, slots))
        self._samples -= one.nbytes
        self.finished += 1
        self.ready = max(self.ready, self.finished)

    def clear(self) -> None:
        """Removes all mini-batches and rows."""
        while self._flight:
            self.finish()
        self.ready = self.finished = 0

    def advance(self, readers: ThreadPoolExecutor) -> bool:
        """Reads the next chunk's rows that are needed; returns False, without a read, if they wait for room.

        Without a ready mini-batch, whose end makes room, it reads as many as fit.

        Raises:
            OSError: The file can't be read, or is shorter than the map. The cache must be cleared.
        """
        self._take_back()
        chunk = self.position % self.num_chunks
        if self._loads[chunk]:
            low = chunk * self._chunk
            ids = kernels.wanted_rows(self._state, low, min(low + self._chunk, len(self._state)))
            room = max(min(self._num_free, self.capacity - (len(self._free) - self._num_free)), 0)
            if len(ids) > room and self.ready > self.finished:
                return False
            self._load(ids[:room], readers)
        self.position += 1
        self._count_ready()
        return True

    @contextmanager
    def serving(self, ids: NDArray[np.int32], table: RowTable) -> Iterator[int]:
        """Redirects the rows of `table` that are held to the cache; yields the hits (`DenseRowCache.serving`)."""
        begin = perf_counter()
        with self._guard:
            now = self._clock
            self._reads[now] += 1  # rows that are released from now on keep their slots until the read ends
        try:
            found = int(
                kernels.redirect_nodes(self._rows.ctypes.data, self._row_bytes, self._state, ids, table.addresses)
            )
            hits = max(found - round(len(ids) * self._distinct / max(self._needed, 1)), 0)
            self._counter.add(hits, len(ids) - hits, perf_counter() - begin)
            yield hits
        finally:
            with self._guard:
                self._reads -= Counter((now,))  # without the times that have no reads left

    @property
    def _held(self) -> int:
        return len(self._free) - self._num_free - sum(len(slots) for _, slots in self._released)

    def _count_ready(self) -> None:
        while self.unready and self._flight[self.ready - self.finished].ready_at <= self.position:
            self.ready += 1

    def _take_back(self) -> None:
        """Makes slots free that were released before the oldest read began."""
        with self._guard:
            oldest = min(self._reads, default=self._clock)
        while self._released and self._released[0][0] <= oldest:
            self._put(self._released.popleft()[1])

    def _put(self, slots: NDArray[np.int32]) -> None:
        self._free[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)

    def _load(self, ids: NDArray[np.int32], readers: ThreadPoolExecutor) -> None:
        """Reads the rows of `ids`, ascending and of one chunk, and serves them from then on."""
        slots = self._free[self._num_free - len(ids) : self._num_free].copy()
        self._num_free -= len(ids)
        self._most_held = max(self._most_held, len(self._free) - self._num_free)
        bounds = kernels.block_bounds(ids, self._row_bytes, GAP_BYTES, BLOCK_BYTES)
        try:
            list(readers.map(partial(self._read_some, ids, slots, bounds), range(min(READERS, len(bounds) - 1))))
        except BaseException:
            self._put(slots)
            raise
        kernels.place_rows(self._state, self._last, ids, slots)
        self._loads[ids[0] // self._chunk if len(ids) else 0] -= len(ids)

    def _read_some(
        self, ids: NDArray[np.int32], slots: NDArray[np.int32], bounds: NDArray[np.int64], first: int
    ) -> None:
        """Reads every `READERS`-th block from the block `first` on; a task per block would take more memory."""
        for block in range(first, len(bounds) - 1, READERS):
            part = slice(bounds[block], bounds[block + 1])
            self._counter.add_read(self._file.read(ids[part], self._rows, slots[part]))


def _chunk_nodes(base: DenseRows, num_nodes: int) -> int:
    return max(1, min(_CHUNK_BYTES // max(base.row_bytes, 1), _CHUNK_NODES, num_nodes))
