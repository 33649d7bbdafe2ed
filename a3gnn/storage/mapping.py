"""Memory maps of a graph's files: find an array's map, bring it into large pages, read scattered rows ahead.

In a map of 4 KiB pages nearly every in-neighbor that a sampler reads costs a look-up in the page tables. Linux avoids
that on file systems that keep files in pages of 2 MiB (ext4, XFS, Btrfs). On others these calls do no harm.
"""

from __future__ import annotations

import mmap
import os
import platform
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.host_limits import host_memory_bytes

_LARGE_PAGE_BYTES = 2 << 20
# Python has the flag from 3.13 on. Elsewhere than on these two machines, its value differs.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if platform.machine() in ("x86_64", "aarch64") else 0)
_BLOCK_BYTES = 512  # the unit of ru_inblock
# A gather with less than this share of its rows from the disk is not worth a system call per row. Guess.
_COLD_SHARE = 0.01
# Maps of files by their address, because a tensor made of one does not tell it.
_maps: WeakValueDictionary[int, NDArray[Any]] = WeakValueDictionary()


def mapped(
    path: Path, file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any], *, fortran: bool = False
) -> NDArray[Any]:
    """Returns the array that begins at the position of `file`, the opened `path`, as a copy-on-write memory map.

    It is writable, because torch.from_numpy warns of other arrays; a stray write never reaches the file. Linux reserves
    memory for every page of such a map, and refuses one larger than RAM and swap. Nothing is reserved here: no page is
    written.

    Raises:
        OSError: It can't be mapped.
    """
    flags = mmap.MAP_PRIVATE | _NO_RESERVE
    mapping = mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    array = np.ndarray.__new__(np.memmap, shape, dtype, mapping, file.tell(), order="F" if fortran else "C")
    array.filename = str(path.resolve())
    return array


def as_known(array: NDArray[Any]) -> NDArray[Any]:
    """Returns `array`, a whole file, after making it known to `file_behind` as long as it lives."""
    _maps[array.ctypes.data] = array
    return array


def file_behind(array: NDArray[Any]) -> NDArray[Any] | None:
    """Returns the known map of a whole file whose memory `array` is, such as an array of a tensor; else None."""
    match = _maps.get(array.ctypes.data)
    layout = array.shape, array.strides, array.dtype
    return None if match is None or (match.shape, match.strides, match.dtype) != layout else match


def mapping_of(array: NDArray[Any]) -> mmap.mmap | None:
    """Returns the file map of which `array` is a view, or None if it is in RAM; callers use it to advise the system.

    Advice applies to the whole map; each .npy file of a converted folder has its own.
    """
    base: object = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base


def settle(folder: Path) -> None:
    """Writes the files in `folder` to the disk and drops them from the page cache.

    Files written piece by piece stay in small pages as long as they are cached. They come back in large pages when they
    are read in order, or through `in_large_pages`.

    Raises:
        OSError: The disk failed to write a file.
    """
    for path in folder.iterdir():
        if not hasattr(os, "posix_fadvise") or path.stat().st_size < _LARGE_PAGE_BYTES:
            continue
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def in_large_pages(array: NDArray[Any]) -> NDArray[Any]:
    """Returns `array` after asking the system to load its file in large pages.

    This is for arrays that are read at random, often and as a whole. An array larger than half of the memory is left
    alone: its pages come and go, and large ones would load much unneeded data.
    """
    mapping = mapping_of(array)
    if mapping is not None and hasattr(mmap, "MADV_HUGEPAGE") and len(mapping) <= host_memory_bytes() // 2:
        try:
            mapping.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without large pages
            return array
    return array


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
        self._mapping: mmap.mmap | None = mapping_of(array)
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
        self._mapping.madvise(mmap.MADV_RANDOM)
        if self._cold:
            for start, length in self._spans(addresses, len(self._mapping)):
                self._mapping.madvise(mmap.MADV_WILLNEED, start, length)
        try:
            yield
        finally:
            # Readers in order, such as an evaluation, need the system's read-ahead.
            self._mapping.madvise(mmap.MADV_NORMAL)
            read = (_blocks_read() - before) * _BLOCK_BYTES
            self._cold = read > _COLD_SHARE * len(addresses) * max(self._row_bytes, mmap.PAGESIZE)

    def _spans(self, addresses: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
        """Returns the pages of these rows as (start, length) in bytes of the map, with adjacent pages merged."""
        begin = addresses - self._begin
        begin = np.sort(begin[(begin >= 0) & (begin < size)])
        if not len(begin):
            return []
        first, last = begin // mmap.PAGESIZE, (begin + self._row_bytes - 1) // mmap.PAGESIZE
        apart = np.flatnonzero(first[1:] > last[:-1] + 1) + 1
        starts = first[np.concatenate([[0], apart])] * mmap.PAGESIZE
        ends = (last[np.concatenate([apart - 1, [len(last) - 1]])] + 1) * mmap.PAGESIZE
        return list(zip(starts.tolist(), (ends - starts).tolist(), strict=True))


def _blocks_read() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock
