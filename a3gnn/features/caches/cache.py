"""What a cache on the host offers to the store that reads through it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.caches.stats import CacheStats
from a3gnn.features.rows.table import RowTable


class RowCache(Protocol):
    """Rows in faster memory than a store's own."""

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes that it holds for as long as it lives, int32, sorted; none where rows are replaced."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the maps."""

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead so far."""


class DenseRowCache(RowCache, Protocol):
    """A cache of dense rows, which are read by address."""

    def serving(self, ids: NDArray[np.int32], table: RowTable) -> AbstractContextManager[int]:
        """Surrounds one read of `table`, whose cached rows are redirected to the cache.

        Args:
            ids: The rows' nodes, int32, in range.
            table: Where they are without this cache; the addresses of cached ones are overwritten on entry.

        Yields:
            How many are cached.
        """
