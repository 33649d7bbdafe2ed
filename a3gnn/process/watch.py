"""A thread that follows the memory of a process tree and ends the tree when it passes its limit."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from a3gnn.process.memory import MemoryUse, PeakMemory, process_tree

#: Seconds between two looks at the memory of known processes, and between two looks for new processes. Guesses.
POLL_SECONDS = 0.005
TREE_SECONDS = 0.1


class MemoryWatch:
    """Records the peak memory of process `pid` and its descendants while the context is open.

    Attributes:
        peak: Largest figures, each on its own, those between two looks included (`PeakMemory`).
        passed_limit: Whether the anonymous memory passed `limit_bytes`, for however short; then the process group of
            `pid` was killed.
    """

    def __init__(self, pid: int, limit_bytes: int | None = None) -> None:
        self.peak = MemoryUse()
        self.passed_limit = False
        self._pid = pid
        self._limit = limit_bytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"memory-watch-{pid}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        tree, look_again = {self._pid: PeakMemory(self._pid)}, 0.0
        while True:
            now = time.monotonic()
            if now >= look_again:
                tree = {pid: tree.get(pid) or PeakMemory(pid) for pid in process_tree(self._pid)}
                look_again = now + TREE_SECONDS
            use = sum((one.look() for one in tree.values()), start=MemoryUse())
            self.peak = self.peak.peak(use)
            if self._limit is not None and use.anonymous_bytes > self._limit and not self.passed_limit:
                self.passed_limit = True
                kill_group(self._pid)
            if self._stop.wait(POLL_SECONDS):
                return


def kill_group(pid: int) -> None:
    """Kills the process group that `pid` leads; nothing happens where it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
