"""`HostStore`: what stores of dense and of sparse rows in host memory have in common."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.caches.cache import RowCache
from a3gnn.features.caches.stats import NO_CACHE, CacheStats
from a3gnn.features.caches.tier import Tier
from a3gnn.features.stores.resident import ResidentPart

AnyTier = TypeVar("AnyTier", bound=Tier[Any])
AnyCache = TypeVar("AnyCache", bound=RowCache)

_NO_NODES = np.empty(0, dtype=np.int32)


class HostStore(Generic[AnyTier, AnyCache]):
    """Rows in host memory or on disk, behind an optional cache and an optional resident part.

    Args:
        num_nodes: Nodes of the graph.
        num_features: Columns.
        resident: The current part's rows.
        cache: Rows in faster memory; None for no cache.
        owned_bytes: Bytes of anonymous memory that all rows take: 0 where they are memory-mapped.
    """

    device = "cpu"

    def __init__(
        self,
        num_nodes: int,
        num_features: int,
        resident: ResidentPart[AnyTier],
        cache: AnyCache | None,
        owned_bytes: int,
    ) -> None:
        self.num_features = num_features
        self._num_nodes = num_nodes
        self._resident = resident
        self._cache = cache
        self._owned_bytes = owned_bytes

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes that a static cache holds, int32, sorted; none with a dynamic cache, whose rows are replaced."""
        return self._cache.cached if self._cache else _NO_NODES

    @property
    def cache_bytes(self) -> int:
        """Bytes that the cache takes, its maps included; 0 without one."""
        return self._cache.nbytes if self._cache else 0

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of the cache so far."""
        return self._cache.stats if self._cache else NO_CACHE

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the store holds."""
        return self._owned_bytes + self.cache_bytes + self._resident.nbytes

    def enter_part(self, part: int) -> None:
        """Copies the rows of `part` to RAM in place of the last part's, where the store keeps one part in RAM."""
        self._resident.enter(part)

    def check(self, ids: NDArray[np.int32]) -> None:
        """Checks that `ids` are nodes: the kernels check no bounds.

        Raises:
            UsageError: An id is out of range.
        """
        if len(ids) and (ids.min() < 0 or ids.max() >= self._num_nodes):
            raise UsageError(f"ids must be in [0, {self._num_nodes}), got ids from {ids.min()} to {ids.max()}")
