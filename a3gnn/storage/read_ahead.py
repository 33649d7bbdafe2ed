"""Reads of scattered rows from a memory map: asked for together while they come from the disk."""

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
# A gather that reads less than one row in a hundred from the disk is not worth a system call per row. Guess.
_COLD_SHARE = 0.01


class ReadAhead:
    """Has the disk serve many rows at once where a thread that faults on them waits for one after the other.

    The system's own read-ahead expects a file to be read in order: for each row it reads up to megabytes that nobody
    asked for. Here what lies around rows stays on the disk (MADV_RANDOM), and a gather names its rows first
    (MADV_WILLNEED). Rows that are in the page cache gain nothing by being named and pay a system call each, so that is
    done while the gather before had to read from the disk, as the process's count of blocks tells. Safe to use from
    several threads, which then share what they found.

    Args:
        array: Rows, C order, shape (num_rows, width); where it is no memory map, nothing is ever done.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._mapping: mmap | None = mapping_of(array)
        self._row_bytes = array.shape[1] * array.itemsize
        self._begin = 0 if self._mapping is None else np.frombuffer(self._mapping, dtype=np.uint8).ctypes.data
        self._cold = True

    @contextmanager
    def reading(self, addresses: NDArray[np.int64]) -> Iterator[None]:
        """Surrounds a gather of the rows at `addresses`, in any order; those outside the map are passed over."""
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
            # Whoever reads the rows in order, such as an evaluation, is served by the system's read-ahead.
            self._mapping.madvise(MADV_NORMAL)
            read = (_blocks_read() - before) * _BLOCK_BYTES
            self._cold = read > _COLD_SHARE * len(addresses) * max(self._row_bytes, PAGESIZE)

    def _spans(self, addresses: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
        """Returns the pages that hold rows of the map as (start, length) in its bytes, neighbouring pages together."""
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
