"""The C library's heap: bytes in use, and the return of free pages to the system. Without glibc both do nothing."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

# Fields of glibc's struct mallinfo2 (mallinfo(3)), each a size_t. They count all arenas.
_FIELDS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)


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


@functools.cache
def _function(name: str) -> Callable[..., Any] | None:
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    if name == "mallinfo2":
        found.restype = _Counts
    else:
        found.argtypes = [ctypes.c_size_t]
    return found  # type: ignore[no-any-return]
