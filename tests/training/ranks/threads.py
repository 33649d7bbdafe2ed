"""Ranks as threads of one process: the real trainers, sums in rank order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.threads import pool

#: Seconds after which a test has deadlocked.
PATIENCE_S = 60
#: Held while a model is built: weights are drawn from torch's own generator, which threads share.
BUILDING = threading.Lock()


@dataclass
class Board:
    """What threads of a group see of each other."""

    size: int
    slots: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = [None] * self.size
        self.barrier = threading.Barrier(self.size, timeout=PATIENCE_S)


@dataclass
class ThreadRanks:
    """`Ranks` whose other ends are threads."""

    board: Board
    rank: int

    @property
    def size(self) -> int:
        return self.board.size

    def sum(self, values: Tensor) -> None:
        found = self._exchanged(values.clone())
        total = found[0]
        for other in found[1:]:
            total = total + other
        values.copy_(total)

    def broadcast(self, values: Tensor, source: int) -> None:
        values.copy_(self._exchanged(values.clone())[source])

    def gathered(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        found = self._exchanged(np.array(values))
        return [] if self.rank else found

    def swap(self, pieces: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        found = [sent[self.rank] for sent in self._exchanged([piece.clone() for piece in pieces])]
        assert [len(one) for one in found] == list(sizes)
        return found

    def _exchanged(self, value: Any) -> list[Any]:
        self.board.slots[self.rank] = value
        self.board.barrier.wait()
        found = list(self.board.slots)
        self.board.barrier.wait()
        return found


def together(size: int, work: Callable[[ThreadRanks], Any]) -> list[Any]:
    """Returns what `work` returns on each of `size` ranks; the first exception is raised, and ends all."""
    board = Board(size)

    def on_thread(rank: int) -> Any:
        try:
            with pool.limited(1):
                return work(ThreadRanks(board, rank))
        except BaseException:
            board.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as threads:
        futures = [threads.submit(on_thread, rank) for rank in range(size)]
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [future.result() for future in futures]
