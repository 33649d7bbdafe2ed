"""`AheadCache`: rows of the next mini-batches, read from the disk in blocks before they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import AHEAD
from a3gnn.features import cache_kernels as kernels
from a3gnn.features.cache import CacheStats, StatsCounter
from a3gnn.features.row_table import RowTable
from a3gnn.features.stored_rows import DenseRows
from a3gnn.storage.blocks import BLOCK_BYTES, GAP_BYTES, READERS, BlockReader

#: Bytes per word of 32 nodes: its bits, and the number of set bits before it.
_WORD_BYTES = 8
#: Words whose rows are read before the next are looked at, so that ids of few rows are in memory. Guess.
_WORDS_AT_ONCE = 1 << 13


class Half:
    """Half of the cache: the rows of one hyperbatch, ascending by node.

    Args:
        base: All rows, on disk.
        num_nodes: Nodes of the graph.
        room: Most bytes of rows and samples.

    Attributes:
        readers: Reads under way.
    """

    def __init__(self, base: DenseRows, num_nodes: int, room: int) -> None:
        words = -(-num_nodes // 32)
        self._bits, self._before = np.zeros(words, dtype=np.uint32), np.zeros(words, dtype=np.int32)
        # Memory that is not written takes none, so samples share the room.
        rows = min(num_nodes, max(room, 0) // max(base.row_bytes, 1))
        self.rows = np.empty((rows, base.array.shape[1]), dtype=base.array.dtype)
        self._row_bytes, self._room = base.row_bytes, room
        self.readers = 0
        self.clear()

    def clear(self) -> None:
        """Removes all rows and samples."""
        self._bits[:] = 0
        self._distinct = self._needed = self._sample_bytes = 0

    def fits(self, ids: NDArray[np.int32], sample_bytes: int) -> bool:
        """Returns whether the rows of `ids`, and a sample of `sample_bytes`, fit beside the others."""
        distinct = self._distinct + kernels.add_members(self._bits, ids, False)
        return bool(distinct * self._row_bytes + self._sample_bytes + sample_bytes <= self._room)

    def add(self, ids: NDArray[np.int32], sample_bytes: int) -> None:
        """Adds the nodes whose rows a mini-batch reads."""
        self._distinct += int(kernels.add_members(self._bits, ids, True))
        self._needed += len(ids)
        self._sample_bytes += sample_bytes

    def load(self, read: Callable[[NDArray[np.int32], NDArray[Any]], None], notify: Callable[[float], bool]) -> bool:
        """Reads the rows of all added nodes, as many as fit; returns whether it was not stopped before the last.

        Args:
            read: Reads rows of one block to memory; called by several threads.
            notify: Called with the share of the rows that are read; returns whether to stop.
        """
        kernels.count_before(self._bits, self._before)
        done, row_bytes = 0, self._row_bytes
        with ThreadPoolExecutor(READERS, "a3gnn-worker") as executor:
            for low in range(0, len(self._bits), _WORDS_AT_ONCE):
                ids = kernels.members(self._bits, low, min(low + _WORDS_AT_ONCE, len(self._bits)))
                ids = ids[: len(self.rows) - done]
                bounds, rows = kernels.block_bounds(ids, row_bytes, GAP_BYTES, BLOCK_BYTES), self.rows[done:]
                list(executor.map(partial(_read_some, read, ids, rows, bounds), range(READERS)))
                done += len(ids)
                if notify(done / max(self._distinct, 1)):
                    return False
        return True

    def redirect(self, ids: NDArray[np.int32], table: RowTable) -> int:
        """Overwrites the addresses in `table`, the rows of `ids`, that are held; returns their number."""
        base = self.rows.ctypes.data, self._row_bytes, len(self.rows)
        return int(kernels.redirect_members(*base, self._bits, self._before, ids, table.addresses))

    @property
    def read_share(self) -> float:
        """Rows that were read from the disk, per row that mini-batches need."""
        return min(self._distinct, len(self.rows)) / max(self._needed, 1)


def _read_some(
    read: Callable[[NDArray[np.int32], NDArray[Any]], None],
    ids: NDArray[np.int32],
    rows: NDArray[Any],
    bounds: NDArray[np.int64],
    first: int,
) -> None:
    """Reads every `READERS`-th block from the block `first` on; a task per block would take more memory than rows."""
    for block in range(first, len(bounds) - 1, READERS):
        part = slice(bounds[block], bounds[block + 1])
        read(ids[part], rows[part])


class AheadCache:
    """Two halves of memory: mini-batches read rows from one while the next rows are read to the other. Thread-safe.

    It never decides what is read, only where: rows that are in neither half are read through the memory map.

    Args:
        base: All rows, on disk.
        num_nodes: Nodes of the graph.
        cache_bytes: Bytes for everything: rows, samples that wait, and the maps.

    Attributes:
        halves: Both halves.
        in_use: Held by the epoch that fills the cache; others read through the map.
    """

    def __init__(self, base: DenseRows, num_nodes: int, cache_bytes: int) -> None:
        self.cached = np.empty(0, dtype=np.int32)
        self.nbytes = cache_bytes
        self.halves = tuple(Half(base, num_nodes, self._room(base, num_nodes, cache_bytes)) for _ in range(2))
        self.in_use = threading.Lock()
        self._file = BlockReader(base.array)
        self._ready: list[Half] = []
        self._condition = threading.Condition()
        self._counter = StatsCounter(AHEAD)

    @classmethod
    def that_fits(cls, base: DenseRows, num_nodes: int, cache_bytes: int) -> Self | None:
        """Returns the cache of `cache_bytes`, maps and scratch included; None if not one row per half fits."""
        return cls(base, num_nodes, cache_bytes) if cls._room(base, num_nodes, cache_bytes) >= base.row_bytes else None

    @staticmethod
    def _room(base: DenseRows, num_nodes: int, cache_bytes: int) -> int:
        fixed = BlockReader.scratch_bytes(base.row_bytes) + 12 * 32 * _WORDS_AT_ONCE
        return (cache_bytes - fixed) // 2 - _WORD_BYTES * -(-num_nodes // 32)

    @property
    def stats(self) -> CacheStats:
        """Reads so far. A row counts as a miss once per hyperbatch, which reads it from the disk once."""
        return self._counter.stats

    def empty(self, half: Half) -> None:
        """Removes the rows of `half`, once no read uses it any more."""
        with self._condition:
            self._ready = [one for one in self._ready if one is not half]
            self._condition.wait_for(lambda: not half.readers)
        half.clear()

    def load(self, half: Half, notify: Callable[[float], bool]) -> None:
        """Reads the rows of `half` from the disk (`Half.load`), and serves them from then on."""

        def read(ids: NDArray[np.int32], out: NDArray[Any]) -> None:
            self._counter.add_read(self._file.read(ids, out))

        if half.load(read, notify):  # else some of its rows were never read
            with self._condition:
                self._ready.append(half)

    @contextmanager
    def serving(self, ids: NDArray[np.int32], table: RowTable) -> Iterator[int]:
        """Redirects the rows of `table` that are held to the cache; yields the hits (`DenseRowCache.serving`)."""
        begin = perf_counter()
        with self._condition:
            halves = list(self._ready)
            for half in halves:
                half.readers += 1
        try:
            hits = 0
            for half in halves:  # the older one first, whose mini-batches come first
                found = half.redirect(ids, table)
                hits = max(hits, found - round(len(ids) * half.read_share))
                if found == len(ids):
                    break
            self._counter.add(hits, len(ids) - hits, perf_counter() - begin)
            yield hits
        finally:
            with self._condition:
                for half in halves:
                    half.readers -= 1
                self._condition.notify_all()
