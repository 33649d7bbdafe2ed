"""Memory maps of a graph's files: which one an array lies in, and how to have it lie in large pages.

In a map of 4 KiB pages nearly every in-neighbour that a sampler reads costs a look-up in the page tables. Linux avoids
that on file systems that keep files in pages of 2 MiB (ext4, XFS, Btrfs); elsewhere nothing here does harm.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from a3gnn.storage.host_memory import host_memory_bytes

_LARGE_PAGE_BYTES = 2 << 20


def mapping_of(array: NDArray[Any]) -> mmap.mmap | None:
    """Returns the map of the file that `array` is a view of, such as to advise the system, or None where it is in RAM.

    What is advised goes for the whole map: each .npy file of a converted folder has its own.
    """
    base: object = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base


def settle(folder: Path) -> None:
    """Has the files in `folder` written to the disk and forgotten by the page cache.

    What is written piece by piece lies there in small pages for as long as it stays. It comes back in large ones when
    it is read in order, or as `in_large_pages`.

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
    """Returns `array` once the system was told to bring the file that it lies in into memory in large pages.

    For what is read at random and often, as a whole. What takes more than half of the memory is left alone: where pages
    come and go, large ones would read much that nobody asked for.
    """
    mapping = mapping_of(array)
    if mapping is not None and hasattr(mmap, "MADV_HUGEPAGE") and len(mapping) <= host_memory_bytes() // 2:
        try:
            mapping.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without large pages
            return array
    return array
