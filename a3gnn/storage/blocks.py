"""`BlockReader`: reads blocks of a memory-mapped array's rows from its file, past the page cache."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.compiled import njit, readonly

#: Offsets and lengths of reads past the page cache are multiples of this, which suits all common disks.
_ALIGNED_BYTES = 4096
#: Largest block, unless a row is larger: at this size disks reach the rate of sequential reads (measured: 64 KiB reach
#: three quarters of it).
BLOCK_BYTES = 1 << 20
#: A gap between rows up to which they are read together. A read costs a disk as much as these bytes: 85,000 reads of
#: 4 KiB per second beside 1.4 GB/s, measured on one disk.
GAP_BYTES = 1 << 14
#: Blocks that are read at once. Guess: disks need several requests in flight.
READERS = 8


class BlockReader:
    """Reads rows from the file behind a memory map. Thread-safe.

    Reads use O_DIRECT. On file systems without it, pages that were read are dropped from the page cache. If the
    system does not tell the file of a map (it does on Linux), rows are read through the map.

    Args:
        rows: C order, shape (num_rows, width).
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        self._rows = rows
        self._row_bytes = rows.shape[1] * rows.itemsize
        self._file, self._begin = -1, 0
        if (found := _file_at(rows.ctypes.data)) is not None:
            path, self._begin = found
            self._file, self._direct = _opened(path)
        nbytes = self.scratch_bytes(self._row_bytes) // READERS
        self._spare: SimpleQueue[mmap.mmap] = SimpleQueue()
        for _ in range(READERS):
            self._spare.put(mmap.mmap(-1, nbytes))

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    @staticmethod
    def scratch_bytes(row_bytes: int) -> int:
        """Returns the bytes of memory that a reader takes."""
        return READERS * (max(BLOCK_BYTES, row_bytes) + 2 * _ALIGNED_BYTES)

    def read(self, ids: NDArray[np.int32], out: NDArray[Any], places: NDArray[np.int32]) -> int:
        """Writes the rows of one block to `out[places]`, and returns the bytes that were read.

        Args:
            ids: Ascending, and from the first to the last at most a block apart.
            out: Rows of the array's width and dtype, C order.
            places: Rows of `out`, shape (len(ids),).

        Raises:
            OSError: The file can't be read, or is shorter than the map.
        """
        first, last, whole = int(ids[0]), int(ids[-1]), out.view(np.uint8)
        if self._file < 0:
            _copy_rows(readonly(self._rows.view(np.uint8)), ids, 0, whole, places)
            return int(len(ids) * self._row_bytes)
        begin, end = self._begin + first * self._row_bytes, self._begin + (last + 1) * self._row_bytes
        start = begin - begin % _ALIGNED_BYTES
        scratch = self._spare.get()
        try:
            got = self._read_at(scratch, start, -(-end // _ALIGNED_BYTES) * _ALIGNED_BYTES - start)
            if start + got < end:
                raise OSError(f"the file of the features must have {end:,} bytes, got {start + got:,}")
            block = np.frombuffer(scratch, dtype=np.uint8, count=end - begin, offset=begin - start)
            _copy_rows(readonly(block.reshape(-1, self._row_bytes)), ids, first, whole, places)
        finally:
            self._spare.put(scratch)
        return got

    def _read_at(self, scratch: mmap.mmap, start: int, nbytes: int) -> int:
        """Reads up to `nbytes` from offset `start` to `scratch`; returns their number, less at the file's end."""
        with memoryview(scratch)[:nbytes] as view:
            got = os.preadv(self._file, [view], start)
        if not self._direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, start, got, os.POSIX_FADV_DONTNEED)
        return got


@njit(cache=True, nogil=True)
def _copy_rows(
    rows: NDArray[np.uint8], ids: NDArray[np.int32], first: int, out: NDArray[np.uint8], places: NDArray[np.int32]
) -> None:
    """Copies the rows of `ids`, of which `rows` begins with `first`, to `out[places]`."""
    for i in range(len(ids)):
        row, target = rows[ids[i] - first], out[places[i]]
        for j in range(rows.shape[1]):
            target[j] = row[j]


def _opened(path: Path) -> tuple[int, bool]:
    """Returns a descriptor of the file at `path`, and whether it reads past the page cache."""
    if hasattr(os, "O_DIRECT"):
        file = -1
        try:
            file = os.open(path, os.O_RDONLY | os.O_DIRECT)
            with mmap.mmap(-1, _ALIGNED_BYTES) as page:
                os.preadv(file, [page], 0)
            return file, True
        except OSError:  # a file system without it refuses to open, or to read
            if file >= 0:
                os.close(file)
    return os.open(path, os.O_RDONLY), False


def _file_at(address: int) -> tuple[Path, int] | None:
    """Returns the file mapped at `address`, and the place in it; None if the system does not tell."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    for line in maps.splitlines():
        span, _, offset, _, _, *name = line.split(maxsplit=5)
        begin, end = (int(one, 16) for one in span.split("-"))
        if begin <= address < end and name and Path(name[0]).is_file():
            return Path(name[0]), int(offset, 16) + address - begin
    return None
