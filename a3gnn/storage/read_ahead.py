"""Reads scattered rows of a memory map, requesting them together while they come from the disk."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import MADV_NORMAL, MADV_RANDOM, MADV_WILLNEED, PAGESIZE, mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.mapping import mapping_of

_BLOCK_BYTES = 512  # the unit of ru_inblock
# A gather with less than this share of its rows from the disk is not worth a system call per row. Guess.
_COLD_SHARE = 0.01


class ReadAhead:
    """Requests many rows from the disk at once, where a thread would otherwise wait for one page fault after another.

    The system's own read-ahead expects files to be read in order: for each row it reads up to megabytes of unneeded
    data. Here it is turned off (MADV_RANDOM), and a gather names its rows first (MADV_WILLNEED). Naming rows that are
    in the page cache gains nothing and costs a system call each. So rows are named only if the previous gather had to
    read from the disk, by the process's count of blocks. Several threads may use one object; they share what it has
    learned.

    Args:
        array: Rows, C order, shape (num_rows, width); if it is no memory map, the object does nothing.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._mapping: mmap | None = mapping_of(array)
        self._row_bytes = array.shape[1] * array.itemsize
        self._begin = 0 if self._mapping is None else np.frombuffer(self._mapping, dtype=np.uint8).ctypes.data
        self._cold = True

    @contextmanager
    def reading(self, addresses: NDArray[np.int64]) -> Iterator[None]:
        """Wraps a gather of the rows at `addresses`, in any order; addresses outside the map are ignored."""
        if self._mapping is None or not len(addresses):
            yield
            return
        before = _blocks_read()
        self._mapping.madvise(MADV_RANDOM)
        if self._cold:
            for start, length in self._spans(addresses, len(self._mapping)):
                self._mapping.madvise(MADV_WILLNEED, start, length)
        try:
            yield
        finally:
            # Readers in order, such as an evaluation, need the system's read-ahead.
            self._mapping.madvise(MADV_NORMAL)
            read = (_blocks_read() - before) * _BLOCK_BYTES
            self._cold = read > _COLD_SHARE * len(addresses) * max(self._row_bytes, PAGESIZE)

    def _spans(self, addresses: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
        """Returns the pages of these rows as (start, length) in bytes of the map, with adjacent pages merged."""
        begin = addresses - self._begin
        begin = np.sort(begin[(begin >= 0) & (begin < size)])
        if not len(begin):
            return []
        first, last = begin // PAGESIZE, (begin + self._row_bytes - 1) // PAGESIZE
        apart = np.flatnonzero(first[1:] > last[:-1] + 1) + 1
        starts = first[np.concatenate([[0], apart])] * PAGESIZE
        ends = (last[np.concatenate([apart - 1, [len(last) - 1]])] + 1) * PAGESIZE
        return list(zip(starts.tolist(), (ends - starts).tolist(), strict=True))


def _blocks_read() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock
