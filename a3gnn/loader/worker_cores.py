"""`WorkerCores`: which cores the worker threads of an epoch run on."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

from a3gnn.errors import UsageError
from a3gnn.threads import affinity


class LoaderThread(NamedTuple):
    """A worker thread: its id as the system counts threads and processes."""

    pid: int


class WorkerCores:
    """Called on each worker thread that begins: lets it run on the next of `cores` alone.

    Args:
        cores: Of each worker.

    Attributes:
        workers: The threads that have begun.
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
        given: A core, or several, of each worker; None takes the first cores that the process may run on, one each.
        num_workers: Workers.

    Raises:
        UsageError: There are no workers, fewer cores than workers, or one that the process may not run on.
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
