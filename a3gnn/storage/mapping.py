"""Memory maps of a graph's files: find an array's map, and bring it into large pages.

In a map of 4 KiB pages nearly every in-neighbor that a sampler reads costs a look-up in the page tables. Linux avoids
that on file systems that keep files in pages of 2 MiB (ext4, XFS, Btrfs). On others these calls do no harm.
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
