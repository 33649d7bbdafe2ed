"""Static caches: rows in RAM of nodes that were chosen before training; all threads read them at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.caches import cache_kernels as kernels
from a3gnn.features.caches.cache import CacheStats, StatsCounter
from a3gnn.features.caches.slot_map import FixedMap
from a3gnn.features.rows.stored import DenseRows, SparseRows
from a3gnn.features.rows.table import RowTable

StoredRows = TypeVar("StoredRows", DenseRows, SparseRows)


class HitsAndMisses(NamedTuple):
    """Ids split into a tier's hits and misses, each in order; all int32.

    Attributes:
        positions: Rows of the hits in the tier.
        hits_where: Rows of the hits in the output.
        misses: Ids.
        misses_where: Rows of the misses in the output.
    """

    positions: NDArray[np.int32]
    hits_where: NDArray[np.int32]
    misses: NDArray[np.int32]
    misses_where: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Tier(Generic[StoredRows]):
    """Rows of some nodes, copied to faster memory.

    Attributes:
        position: int32, shape (num_nodes,): each node's position in `rows`, -1 for none.
        rows: Copies of the nodes' rows.
    """

    position: NDArray[np.int32]
    rows: StoredRows

    @classmethod
    def of(cls, source: StoredRows, nodes: NDArray[np.int32], num_nodes: int) -> Self:
        """Returns the tier that holds the rows of `nodes` (distinct)."""
        return cls(FixedMap(nodes, num_nodes).position, source.take(nodes))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self.position.nbytes + self.rows.nbytes


class DenseTier(Tier[DenseRows]):
    """Dense rows, which are read by address."""

    __slots__ = ()

    def redirect(self, ids: NDArray[np.int32], table: RowTable) -> int:
        """Overwrites the addresses in `table`, the rows of `ids`, that the tier holds; returns their number.

        The tier must outlive the table.
        """
        array = self.rows.array
        hits = kernels.redirect_nodes(array.ctypes.data, array.strides[0], self.position, ids, table.addresses)
        return int(hits)


class SparseTier(Tier[SparseRows]):
    """Sparse rows, which are copied by position."""

    __slots__ = ()

    def split(self, ids: NDArray[np.int32], where: NDArray[np.int32]) -> HitsAndMisses:
        """Splits `ids`, destined for rows `where` of an output, into hits and misses."""
        return HitsAndMisses(*kernels.split(self.position, ids, where))


AnyTier = TypeVar("AnyTier", bound=Tier[Any])


class _FixedRows(Generic[AnyTier]):
    def __init__(self, tier: AnyTier, nodes: NDArray[np.int32], policy: str, reason: str) -> None:
        self.cached = nodes
        self._tier = tier
        self._counter = StatsCounter(policy, reason)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self._tier.nbytes

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead so far."""
        return self._counter.stats


class StaticCache(_FixedRows[DenseTier]):
    """A static cache of dense rows.

    Args:
        base: All rows.
        nodes: The cached nodes, int32, sorted, distinct.
        num_nodes: Nodes of the graph.
        policy: The policy that chose them, for `stats`.
        reason: Why `auto` chose the policy; "" if the user named it.
    """

    def __init__(
        self, base: DenseRows, nodes: NDArray[np.int32], num_nodes: int, policy: str = "degree", reason: str = ""
    ) -> None:
        super().__init__(DenseTier.of(base, nodes, num_nodes), nodes, policy, reason)

    @contextmanager
    def serving(self, ids: NDArray[np.int32], table: RowTable) -> Iterator[int]:
        """Redirects the cached rows of `table` to the cache; yields their number (`DenseRowCache.serving`)."""
        begin = perf_counter()
        hits = self._tier.redirect(ids, table)
        self._counter.add(hits, len(ids) - hits, perf_counter() - begin)
        yield hits


class SparseStaticCache(_FixedRows[SparseTier]):
    """A static cache of sparse rows; the arguments are the same as for `StaticCache`."""

    def __init__(
        self, base: SparseRows, nodes: NDArray[np.int32], num_nodes: int, policy: str = "degree", reason: str = ""
    ) -> None:
        super().__init__(SparseTier.of(base, nodes, num_nodes), nodes, policy, reason)

    @property
    def rows(self) -> SparseRows:
        """The cached rows."""
        return self._tier.rows

    def split(self, ids: NDArray[np.int32], where: NDArray[np.int32]) -> HitsAndMisses:
        """Splits `ids`, destined for rows `where` of an output, into hits and misses, and counts them."""
        begin = perf_counter()
        split = self._tier.split(ids, where)
        self._counter.add(len(split.positions), len(split.misses), perf_counter() - begin)
        return split
