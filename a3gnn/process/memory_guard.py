"""Watches this process's memory that can't be reclaimed during a run."""

from __future__ import annotations

import math
import os
import threading
import weakref
from types import TracebackType
from typing import Self

from a3gnn.errors import MemoryLimitError
from a3gnn.launch import by_torchrun, launch
from a3gnn.process.memory import PeakMemory, process_memory, spare_bytes
from a3gnn.units import format_size

# Seconds between samples: a mini-batch takes tens of milliseconds, and a sample took 60 us, .3 % of a core (measured).
_PERIOD_S = 0.02


def host_bytes() -> int:
    """Returns the anonymous and shared-anonymous memory of this process, resident or swapped."""
    return process_memory(os.getpid()).anonymous_bytes


class MemoryGuard:
    """Watches this process's memory, including memory that a mini-batch holds for a short time only.

    It looks fifty times per second and at each query; between looks the kernel keeps the peak (`PeakMemory`). A second
    limit always applies: the memory at the guard's creation plus the machine's free memory then, less a reserve
    (`spare_bytes`).

    Args:
        limit: Most bytes for `host_bytes`; None sets no limit but the second one.

    Attributes:
        limit: Most bytes for `host_bytes`, or None.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self._free = limit, _free()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="a3gnn-memory", daemon=True)
        self._peak = self._recent = 0
        _OWN.add(self)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        _OWN.remove(self)

    @property
    def peak_bytes(self) -> int:
        """The peak from the guard's creation until now, or until it was closed."""
        _OWN.look()
        return self._peak

    @property
    def _most(self) -> float:
        """The smaller one of both limits."""
        return min(limit for limit in (self.limit, self._free, math.inf) if limit is not None)

    @property
    def left_bytes(self) -> float:
        """Bytes that this process may take besides what it holds now; infinite without any limit."""
        return self._most - host_bytes()

    @property
    def is_over(self) -> bool:
        """Whether the limit was passed."""
        return self.peak_bytes > self._most

    def need(self, more: int, remedy: str) -> None:
        """Does nothing if `more` bytes keep the limit.

        Raises:
            MemoryLimitError: They don't; the message names `remedy`.
        """
        needed, most = host_bytes() + more, self._most
        if needed > most:
            raise MemoryLimitError(
                f"the run must keep to {format_size(most)} of host memory, but needs at least {format_size(needed)}; "
                f"{remedy}"
            )

    def check(self) -> None:
        """Does nothing if the limit has been kept.

        Raises:
            MemoryLimitError: The limit was passed.
        """
        if self.is_over:
            smaller = (
                "take a smaller batch_size, num_workers or cache_bytes, or feature_tier disk if the graph is not read "
                "by parts"
            )
            limit = self._free if self.limit is None or self.peak_bytes <= self.limit else self.limit
            assert limit is not None
            if limit == self.limit:
                most, remedy = format_size(limit), f"raise the limit, or {smaller}"
            else:
                most = f"{format_size(limit)} (its memory at the start plus the machine's free memory, less a reserve)"
                remedy = f"end other programs, or {smaller}"
            now = host_bytes()
            short = f" for a moment, and takes {format_size(now)} now" if now <= limit else ""
            raise MemoryLimitError(
                f"the run must keep to {most} of host memory, but it took {format_size(self.peak_bytes)}{short}; "
                f"{remedy}"
            )

    def recent_bytes(self) -> int:
        """Returns the peak since the last call of this method."""
        return _OWN.recent(self)

    def see(self, taken: int) -> None:
        """Records that this process held `taken` bytes; called by one thread at a time."""
        self._peak, self._recent = max(self._peak, taken), max(self._recent, taken)

    def forget_recent(self) -> int:
        """Returns the peak since the last call of this method; called by one thread at a time."""
        recent, self._recent = self._recent, 0
        return recent

    def _watch(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            _OWN.look()


def _free() -> int | None:
    """Returns the most that this process may hold, its ranks sharing the spare memory equally; None if unknown."""
    spare, started = spare_bytes(), launch() if by_torchrun() else None
    if spare is None:
        return None
    return host_bytes() + (spare if started is None else spare // started.local_size)


class _OwnMemory:
    """Looks at this process for all its guards, one thread at a time, because a look resets the mark for all."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Forgets all guards, because a forked child has its own memory."""
        self._lock = threading.Lock()
        self._peak = PeakMemory(os.getpid(), resets=True)
        self._guards = weakref.WeakSet[MemoryGuard]()

    def add(self, guard: MemoryGuard) -> None:
        """Shows `guard` all memory from now on."""
        with self._lock:
            self._look()
            self._guards.add(guard)
            self._look()

    def remove(self, guard: MemoryGuard) -> None:
        """Shows `guard` the memory until now, and none from now on."""
        with self._lock:
            self._look()
            self._guards.discard(guard)

    def look(self) -> None:
        """Shows all guards the peak since the last look."""
        with self._lock:
            self._look()

    def recent(self, guard: MemoryGuard) -> int:
        """Returns the peak that `guard` has seen since its last query."""
        with self._lock:
            self._look()
            return guard.forget_recent()

    def _look(self) -> None:
        taken = self._peak.look().anonymous_bytes
        for guard in self._guards:
            guard.see(taken)


_OWN = _OwnMemory()
os.register_at_fork(after_in_child=_OWN.renew)
