"""`keep_one_heap`: a server's memory stays what it needs at once, however many requests there were."""

from __future__ import annotations

import ctypes
from contextlib import suppress

#: Parameters of glibc's `mallopt` (malloc.h).
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
#: Blocks from so many bytes on go back to the system when they are freed: glibc's first value, which it raises to the
#: largest block that was freed.
_MAPPED_BYTES = 128 << 10


def keep_one_heap() -> None:
    """Has the C library serve all threads from one heap, and large blocks from the system.

    By default glibc has up to 8 heaps per core, each of which keeps what the threads that answer requests have freed in
    it; answers are made in 40 threads and freed in another. Python's own lock has one thread allocate at a time anyway.
    To be called before there are threads. Other C libraries are left as they are.
    """
    with suppress(OSError, AttributeError):  # no such function
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
