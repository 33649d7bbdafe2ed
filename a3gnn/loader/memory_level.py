"""`MemoryLevel`: this process's memory under a limit: in use, free for reuse, and at its peak."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

from a3gnn.process.heap import can_trim, heap_bytes, kept_pages, map_blocks, trim_heap
from a3gnn.process.memory import spare_bytes
from a3gnn.process.memory_guard import MemoryGuard, host_bytes

# Numbers that name no evidence of their own were tested together: 960 unseen cases of `python -m
# benchmarks.memory_contract`, whose results docs/design/engine.md lists.
# The heap's count serves if it covers this share of the memory; another allocator may stand in its place.
_LEAST_COUNTED = 0.05
# Free blocks go back to the system once memory is this close to the limit, but no closer than a part of the room that
# the loop had, and not than the last.
_NEAR_BYTES, _NEAR, _LEAST_NEAR_BYTES = 48 << 20, 1 / 8, 1 << 18
# Seconds between looks: the shortest, the longest, and those in which a pass may take a byte: pages are cleared at some
# GB/s, and the thread that looks waits for a core.
_SOONEST_S, _LATEST_S, _BYTE_S = 0.001, 0.005, 1 / (16 << 30)


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
        self._brake: _Brake | None = None
        self._beside_heap: int | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks at the memory all the time within this context, whose begin decides the machine's spare memory."""
        spare = spare_bytes()
        self.cap_bytes = self.limit_bytes if spare is None else min(self.limit_bytes, host_bytes() + spare)
        trim_heap()
        before = self._guard, self._brake  # of an epoch that goes on meanwhile
        with kept_pages(), MemoryGuard() as self._guard, _Brake(self.cap_bytes) as self._brake:
            try:
                yield
            finally:
                self._guard, self._brake = before

    def now(self) -> Level:
        """Returns the present level."""
        held, heap = host_bytes(), heap_bytes()
        if self._beside_heap is None or heap is None:
            return Level(held, held)
        return Level(held, min(held, self._beside_heap + heap))

    @property
    def near_bytes(self) -> int:
        """How close to the limit free blocks go back."""
        return 0 if self._brake is None else self._brake.near_bytes

    def keep(self, nbytes: float) -> int:
        """Lets the C library keep free blocks in a heap of at most `nbytes`; returns how often too many were there."""
        if self._brake is None:
            return 0
        return self._brake.keep(nbytes)

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


class _Brake:
    """Helps a pass to stay below `cap_bytes` while it runs, if its live blocks do.

    Free blocks that the library keeps are a third to a half of a pass's memory, and vary by as much. So memory up to a
    level may be kept; from there on, blocks that find no free one are mapped, and go back once they are freed. Close to
    `cap_bytes`, free blocks go back, too.

    Attributes:
        near_bytes: How close that is.
    """

    def __init__(self, cap_bytes: int) -> None:
        self.near_bytes = max(_LEAST_NEAR_BYTES, min(_NEAR_BYTES, round(_NEAR * (cap_bytes - host_bytes()))))
        self._last = cap_bytes - self.near_bytes
        self._level: float = self._last
        self._returned = 0
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="a3gnn-memory-brake", daemon=True)

    def __enter__(self) -> Self:
        if can_trim():
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        map_blocks(False)

    def keep(self, nbytes: float) -> int:
        """Sets the level; returns how often free blocks went back since the last call."""
        with self._lock:
            self._level = min(nbytes, self._last)
            map_blocks(host_bytes() >= self._level)
            returned, self._returned = self._returned, 0
            return returned

    def _watch(self) -> None:
        wait_s, most = 0.0, self._last
        while not self._ended.wait(wait_s):
            with self._lock:
                held = host_bytes()
                if held >= self._level:
                    map_blocks(True)
                if held < self._last:
                    most = self._last
                elif held >= most:
                    trim_heap()
                    self._returned += 1
                    held = host_bytes()
                    most = max(self._last, held + self.near_bytes // 2)
                next_one = self._last if held >= self._level else min(self._level, self._last)
                wait_s = min(max((next_one - held) * _BYTE_S, _SOONEST_S), _LATEST_S)
