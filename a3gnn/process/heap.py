"""The C library's heap: bytes in use, what it keeps, and the return of free pages. Without glibc nothing happens."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Fields of glibc's struct mallinfo2 (mallinfo(3)), each a size_t. They count all arenas.
_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")

# Parameters of mallopt(3), and the values of a heap that keeps all pages: no block is mapped, and no page goes back.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_KEEPING = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1))
# Values of a heap that maps all but small blocks: those from which glibc starts, and half of Linux's maps.
_MAPPING = ((_MMAP_MAX, 32768), (_MMAP_THRESHOLD, 128 << 10))
# Values that glibc itself reaches in a process that frees a block of 32 MiB, besides its first _MMAP_MAX (malloc.c).
_USUAL = ((_MMAP_MAX, 65536), (_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 64 << 20))
_CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")
_keepers, _keeping = 0, threading.Lock()
_applied: tuple[tuple[int, int], ...] = ()


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def heap_bytes() -> int | None:
    """Returns the bytes of allocated blocks, of the arenas and mapped ones; None if the C library doesn't count them.

    Freed blocks that the library keeps do not count, although their pages stay resident.
    """
    counting = _function("mallinfo2")
    if counting is None:
        return None
    counts = counting()
    return int(counts.uordblks + counts.hblkhd) or None


def trim_heap() -> bool:
    """Returns the pages of free blocks to the system; False if the C library can't. It takes 2 to 10 ms."""
    trimming = _function("malloc_trim")
    return trimming is not None and bool(trimming(0) >= 0)


@contextmanager
def kept_pages() -> Iterator[None]:
    """Keeps freed pages for later blocks within this context, in all threads; `trim_heap` returns them.

    By default glibc maps each large block anew, so that the system clears its pages again: half of the time of a
    training step on some machines. Environment variables that configure the heap take precedence.
    """
    global _keepers
    with _keeping:
        _keepers += 1
        if _keepers == 1:
            _configure(_KEEPING)
    try:
        yield
    finally:
        with _keeping:
            _keepers -= 1
            if not _keepers:
                _configure(_USUAL)


def map_blocks(on: bool) -> None:
    """Has the C library map each large block, in all threads, or, within `kept_pages`, keep freed pages again.

    A mapped block goes back to the system as soon as it is freed, so that the peak of memory is that of live blocks. It
    also costs twice the time.
    """
    with _keeping:
        _configure(_MAPPING if on else _KEEPING if _keepers else _USUAL)


def can_trim() -> bool:
    """Returns whether `trim_heap` can return pages."""
    return _function("malloc_trim") is not None


def _configure(values: tuple[tuple[int, int], ...]) -> None:
    global _applied
    configuring = _function("mallopt")
    if values is _applied or configuring is None or any(name in os.environ for name in _CHOSEN):
        return
    _applied = values
    for parameter, value in values:
        configuring(parameter, value)


@functools.cache
def _function(name: str) -> Callable[..., Any] | None:
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    if name == "mallinfo2":
        found.restype = _Counts
    else:
        found.argtypes = [ctypes.c_size_t] if name == "malloc_trim" else [ctypes.c_int, ctypes.c_int]
    return found  # type: ignore[no-any-return]


def _forget() -> None:
    """Has a forked child begin with the usual heap: what kept pages runs in its parent alone."""
    global _keepers, _keeping
    _keeping = threading.Lock()
    if _keepers:
        _keepers = 0
        _configure(_USUAL)


os.register_at_fork(after_in_child=_forget)
