"""`WorkerCores`: pins the worker threads of an epoch to cores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

from a3gnn.errors import UsageError
from a3gnn.threads import affinity


class LoaderThread(NamedTuple):
    """A worker thread.

    Attributes:
        pid: The operating system's thread id.
    """

    pid: int


class WorkerCores:
    """Called on each starting worker thread; pins it to the next entry of `cores`.

    Args:
        cores: One set of cores per worker.

    Attributes:
        workers: The threads that have started.
    """

    def __init__(self, cores: Sequence[frozenset[int]]) -> None:
        self._cores = cores
        self._lock = threading.Lock()
        self.workers: list[LoaderThread] = []

    def __call__(self) -> None:
        """Pins the calling thread."""
        with self._lock:
            affinity.pin(self._cores[len(self.workers)])
            self.workers.append(LoaderThread(threading.get_native_id()))


def checked_cores(given: Iterable[Any] | None, num_workers: int) -> list[frozenset[int]]:
    """Returns the cores of each worker.

    Args:
        given: One core or several cores per worker; None takes the process's first allowed cores, one each.
        num_workers: At least 1.

    Raises:
        UsageError: There are no workers, fewer entries than workers, or cores that the process may not use.
    """
    home = sorted(affinity.home())
    each: Iterable[Any] = home if given is None else given
    cores: list[set[int]] = [{int(core)} if isinstance(core, Integral) else set(core) for core in each]
    rule = f"loader_cores must be cores among {home}, some for each of {num_workers} workers"
    if num_workers < 1:
        raise UsageError(f"{rule}, one worker at least; num_workers=1 makes one")
    if len(cores) < num_workers or not all(cores):
        raise UsageError(f"{rule}, got {given!r}; lower num_workers or give more")
    if not set().union(*cores) <= set(home):
        raise UsageError(f"{rule}, got {given!r}")
    return [frozenset(core) for core in cores[:num_workers]]
