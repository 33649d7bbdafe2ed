"""`HostStore`: the common base of stores of dense and of sparse rows in host memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.features.caches.cache import NO_CACHE, CacheStats, RowCache
from a3gnn.features.caches.static import Tier
from a3gnn.features.rows.stored import DenseRows, SparseRows

AnyTier = TypeVar("AnyTier", bound=Tier[Any])
AnyRows = TypeVar("AnyRows", DenseRows, SparseRows)
AnyCache = TypeVar("AnyCache", bound=RowCache)

_NO_NODES = np.empty(0, dtype=np.int32)


class ResidentPart(Generic[AnyTier]):
    """Keeps the rows of one part at a time in RAM, for training part by part.

    Args:
        parts: Each node's part, int32, shape (num_nodes,); None keeps nothing.
        copied: Returns the tier with the rows of some nodes.

    Attributes:
        tier: The current part's rows; None before the first part, and without parts.
    """

    def __init__(self, parts: NDArray[np.int32] | None, copied: Callable[[NDArray[np.int32]], AnyTier]) -> None:
        self.tier: AnyTier | None = None
        self._parts = parts
        self._copied = copied
        self._part = -1

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self.tier.nbytes if self.tier else 0

    def enter(self, part: int) -> None:
        """Replaces the rows of the last part by the rows of `part`."""
        if self._parts is None or part == self._part:
            return
        # The old part is freed first. Both at once would be the peak of memory that partitions are meant to lower.
        self.tier = None
        self.tier = self._copied(np.flatnonzero(self._parts == part).astype(np.int32))
        self._part = part


class HostStore(Generic[AnyRows, AnyTier, AnyCache]):
    """Rows in host memory or on disk, behind an optional cache and an optional resident part.

    Args:
        base: All rows.
        num_nodes: Nodes of the graph.
        num_features: Columns.
        cache: Rows in faster memory than `base`; None for no cache.
        parts: Each node's part, int32, shape (num_nodes,), to keep the current part's rows in RAM; None keeps none.
        owns_base: Whether `base` is anonymous memory.
        cache_of: Returns a cache of at most this many bytes, or None if not one row fits; None if the size is fixed.
    """

    device = "cpu"
    #: Type of the copy of a part's rows.
    tier: type[AnyTier]

    def __init__(
        self,
        base: AnyRows,
        num_nodes: int,
        num_features: int,
        *,
        cache: AnyCache | None = None,
        parts: NDArray[np.int32] | None = None,
        owns_base: bool = False,
        cache_of: Callable[[int], AnyCache | None] | None = None,
    ) -> None:
        self.num_features = num_features
        self._base: AnyRows = base
        self._num_nodes = num_nodes
        self._resident: ResidentPart[AnyTier] = ResidentPart(parts, partial(self.tier.of, base, num_nodes=num_nodes))
        self._cache, self._cache_of = cache, cache_of
        self._owned_bytes = base.nbytes if owns_base else 0

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

    @property
    def row_bytes(self) -> int:
        """Mean bytes of a row as it is stored."""
        return self._base.nbytes // self._num_nodes

    @property
    def can_resize(self) -> bool:
        """Whether `resize` works."""
        return self._cache_of is not None

    def resize(self, cache_bytes: int) -> None:
        """Replaces the cache by one of at most `cache_bytes`, maps included; its counts start at 0.

        Reads return the same values afterwards. No thread may read during the call.

        Raises:
            UsageError: The store was opened with a cache of a fixed size.
        """
        if self._cache_of is None:
            raise UsageError("resize needs a store that was opened by a configuration (open_features)")
        self._cache = None  # freed before the new one is filled: both at once would be a peak of memory
        self._cache = self._cache_of(cache_bytes)

    def enter_part(self, part: int) -> None:
        """Replaces the last part's rows in RAM by the rows of `part`; does nothing if the store keeps none."""
        self._resident.enter(part)

    def check(self, ids: NDArray[np.int32]) -> None:
        """Checks that `ids` are nodes, because the kernels check no bounds.

        Raises:
            UsageError: An id is out of range.
        """
        if len(ids) and (ids.min() < 0 or ids.max() >= self._num_nodes):
            raise UsageError(f"ids must be in [0, {self._num_nodes}), got ids from {ids.min()} to {ids.max()}")
