"""This process's memory that can't be reclaimed, watched while a run goes on."""

from __future__ import annotations

import math
import sys
import threading
from types import TracebackType
from typing import Self

from a3gnn.errors import MemoryLimitError
from a3gnn.launch import by_torchrun, launch
from a3gnn.process.memory import ANONYMOUS, spare_bytes
from a3gnn.units import format_size

# Seconds between samples: a mini-batch takes tens of milliseconds. Guess.
_PERIOD_S = 0.02


def host_bytes() -> int:
    """Returns the anonymous and shared-anonymous memory of this process, resident or swapped."""
    if sys.platform != "linux":
        import psutil

        return int(psutil.Process().memory_full_info().uss)
    with open("/proc/self/status", "rb") as file:
        return 1024 * sum(map(int, ANONYMOUS.findall(file.read())))


class MemoryGuard:
    """Samples this process's memory fifty times per second, so that what a mini-batch takes and gives back is seen.

    Args:
        limit: What `host_bytes` may reach; None for none but what the machine has free when the guard is made, less a
            reserve (`spare_bytes`), which holds beside any limit.

    Attributes:
        limit: As given.
        peak_bytes: The most that was seen so far.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self._free = limit, _free()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="a3gnn-memory", daemon=True)
        self.peak_bytes = self._recent_bytes = host_bytes()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def is_over(self) -> bool:
        """Whether the limit was passed."""
        self._sample()
        return self.peak_bytes > min(limit for limit in (self.limit, self._free, math.inf) if limit is not None)

    def check(self) -> None:
        """Does nothing while the limit has been kept.

        Raises:
            MemoryLimitError: It was passed.
        """
        if self.is_over:
            smaller = (
                "take a smaller batch_size, num_workers or cache_bytes, or feature_tier disk where the graph is not "
                "read by parts"
            )
            if self.limit is not None and self.peak_bytes > self.limit:
                most, remedy = format_size(self.limit), f"raise the limit, or {smaller}"
            else:
                assert self._free is not None
                most, remedy = f"the {format_size(self._free)} that were free", f"end other programs, or {smaller}"
            raise MemoryLimitError(
                f"the run must keep to {most} of host memory, it took {format_size(self.peak_bytes)}; {remedy}"
            )

    def recent_bytes(self) -> int:
        """Returns the most that was seen since this was last asked."""
        self._sample()
        recent, self._recent_bytes = self._recent_bytes, 0
        return recent

    def _watch(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            self._sample()

    def _sample(self) -> None:
        now = host_bytes()
        self.peak_bytes, self._recent_bytes = max(self.peak_bytes, now), max(self._recent_bytes, now)


def _free() -> int | None:
    """Returns what this process may take of what the machine has free, its ranks alike; None where it is not known."""
    spare, started = spare_bytes(), launch() if by_torchrun() else None
    if spare is None:
        return None
    return host_bytes() + (spare if started is None else spare // started.local_size)
