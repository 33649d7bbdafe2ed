"""`RowExchange`: exchanges rows of a matrix; each rank computes a part, and all ranks need the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.graphs.graph import Graph
from a3gnn.ranks.peers import Ranks

#: Bytes per message. Guess.
_PIECE_BYTES = 16 * 2**20


class RowExchange:
    """Splits ascending nodes into one run per rank, with about equally many nodes and in-edges, and sends rows.

    Args:
        graph: Provides the nodes' in-edges.
        ranks: The participating ranks; None splits nothing and sends nothing.

    Attributes:
        rank: The index of this rank's run.
    """

    def __init__(self, graph: Graph, ranks: Ranks | None) -> None:
        self._graph, self._ranks = graph, ranks
        self.rank = 0 if ranks is None else ranks.rank
        self._size = 1 if ranks is None else ranks.size

    def bounds(self, ids: NDArray[np.int32]) -> list[int]:
        """Returns the bounds of the runs of `ids`, (ranks + 1,); no run is empty if there are enough ids."""
        if self._size == 1:
            return [0, len(ids)]
        indptr = self._graph.indptr
        work = np.cumsum(1 + indptr[ids.astype(np.int64) + 1] - indptr[ids])
        found = [0]
        for run in range(1, self._size):
            end = int(np.searchsorted(work, work[-1] * run // self._size, side="right"))
            found.append(min(max(end, found[-1] + 1), len(ids) - self._size + run))
        return [*found, len(ids)]

    def mine(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns this rank's run of `ids`."""
        bounds = self.bounds(ids)
        return ids[bounds[self.rank] : bounds[self.rank + 1]]

    def within(self, some: NDArray[np.int32], ids: NDArray[np.int32]) -> list[int]:
        """Returns the bounds in `some`, a subset of `ids`, of the entries that belong to each run of `ids`."""
        firsts = [ids[begin] for begin in self.bounds(ids)[1:-1]]
        return [0, *np.searchsorted(some, firsts).tolist(), len(some)]

    def send_runs(self, matrix: Tensor, bounds: Sequence[int]) -> None:
        """Completes the rows of `matrix`, float32, on the host, if each rank has computed the rows in its `bounds`."""
        if self._ranks is None:
            return
        for source, first, last in _pieces(matrix, bounds):
            self._ranks.broadcast(matrix[first:last], source)


def _pieces(matrix: Tensor, bounds: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yields the rank, begin and end of each message's rows."""
    rows = max(1, _PIECE_BYTES // (4 * max(1, matrix.shape[1])))
    for source, (low, high) in enumerate(pairwise(bounds)):
        for first in range(low, high, rows):
            yield source, first, min(first + rows, high)


def summed(ranks: Ranks, counts: NDArray[Any]) -> NDArray[Any]:
    """Returns the sums of `counts`, int64 or float64, over all ranks."""
    values = torch.from_numpy(counts.copy())
    ranks.sum(values)
    found: NDArray[Any] = values.numpy()
    return found
