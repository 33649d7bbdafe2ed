"""`Adjacency`: in-neighbours as CSR, with each row's cached ones first where a cache steers sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.sampling.kernels import cached_first
from a3gnn.sampling.views import cached_mask, readonly


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """In-neighbours as CSR.

    Attributes:
        indptr: int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,); each row's cached in-neighbours come first.
        num_cached: Cached in-neighbours per row, int32, shape (num_nodes,); empty where nothing is cached.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    num_cached: NDArray[np.int32]

    @classmethod
    def plain(cls, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> Self:
        """Returns the adjacency as given, memory maps included: not copied, nothing cached."""
        return cls(readonly(indptr), readonly(indices), readonly(np.empty(0, dtype=np.int32)))

    @classmethod
    def by_cache(cls, indptr: NDArray[np.int64], indices: NDArray[np.int32], cached: NDArray[np.bool_]) -> Self:
        """Returns a private copy with every row's `cached` (bool, shape (num_nodes,)) in-neighbours first.

        Takes `num_edges + num_nodes` int32 of memory and one pass over the edges.

        Raises:
            UsageError: `cached` has another type or length.
        """
        mask, ordered = cached_mask(cached, len(indptr) - 1), np.empty(len(indices), dtype=np.int32)
        counts = cached_first(readonly(indptr), readonly(indices), mask, readonly(indices), ordered)
        return cls(readonly(indptr), readonly(ordered), readonly(counts))

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return len(self.indptr) - 1
