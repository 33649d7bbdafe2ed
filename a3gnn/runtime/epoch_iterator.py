"""`EpochIterator`: the mini-batches of one epoch, and the worker threads that load them."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any, Self

from a3gnn.runtime.worker_cores import Worker, WorkerCores


class EpochIterator:
    """Iterates over mini-batches; dropping it, or closing it, ends every thread.

    Args:
        batches: The mini-batches.
        pinned: What gives workers their cores. They then begin at once, so that they can be looked at; without,
            nothing begins before a mini-batch is asked for.
    """

    def __init__(self, batches: Generator[Any, None, None], pinned: WorkerCores | None) -> None:
        self._batches = batches
        self._pinned = pinned
        self._ahead = list(islice(batches, 0 if pinned is None else 1))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._ahead.pop() if self._ahead else next(self._batches)

    def close(self) -> None:
        """Ends the epoch and its threads."""
        self._batches.close()

    @property
    def _workers(self) -> list[Worker]:
        """The workers that have begun, under the name that torch's iterators have for them."""
        return [] if self._pinned is None else self._pinned.workers
