"""`MemoryLevel`: this process's memory under a limit: in use, free for reuse, and at its peak."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from a3gnn.process.heap import heap_bytes, kept_pages, trim_heap
from a3gnn.process.memory import spare_bytes
from a3gnn.process.memory_guard import MemoryGuard, host_bytes

# The heap's count serves if it covers this share of the memory; another allocator may stand in its place. Guess.
_LEAST_COUNTED = 0.05


class Level(NamedTuple):
    """Memory of this process that can't be reclaimed, in bytes.

    Attributes:
        held: All of it, free blocks that the C library keeps included.
        used: Without these blocks, which a later allocation can take. As `held` if the library doesn't count them.
    """

    held: int
    used: int


class MemoryLevel:
    """Measures this process's memory under a limit.

    Args:
        limit_bytes: Most bytes that can't be reclaimed.

    Attributes:
        limit_bytes: The same.
        cap_bytes: The limit, or less: what was in use and the machine's spare memory when the epoch began.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = self.cap_bytes = limit_bytes
        self._guard = self._idle = MemoryGuard()
        self._beside_heap: int | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks at the memory all the time within this context, whose begin decides the machine's spare memory."""
        spare = spare_bytes()
        self.cap_bytes = self.limit_bytes if spare is None else min(self.limit_bytes, host_bytes() + spare)
        with kept_pages(), MemoryGuard() as self._guard:
            try:
                yield
            finally:
                self._guard = self._idle

    def now(self) -> Level:
        """Returns the present level."""
        held, heap = host_bytes(), heap_bytes()
        if self._beside_heap is None or heap is None:
            return Level(held, held)
        return Level(held, min(held, self._beside_heap + heap))

    def trimmed(self, *, collect: bool = False) -> Level:
        """Returns the level after free blocks went back to the system; `collect` collects Python's garbage before."""
        if collect:
            gc.collect()
        if trim_heap():
            held, heap = host_bytes(), heap_bytes()
            self._beside_heap = None if heap is None or heap < _LEAST_COUNTED * held else held - heap
        return self.now()

    def peak(self) -> int:
        """Returns the peak since the last call."""
        return self._guard.recent_bytes()
