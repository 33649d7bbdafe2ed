"""Tiers: copies of some nodes' rows in faster memory, dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.caches import kernels
from a3gnn.features.caches.fixed_map import FixedMap
from a3gnn.features.rows.stored import DenseRows, SparseRows
from a3gnn.features.rows.table import RowTable

Stored = TypeVar("Stored", DenseRows, SparseRows)


class Split(NamedTuple):
    """Ids split into a tier's hits and misses, each in order; all int32.

    Attributes:
        positions: Of the hits, in the tier's rows.
        hits_where: Rows of the output that the hits go to.
        misses: Ids.
        misses_where: Rows of the output that the misses go to.
    """

    positions: NDArray[np.int32]
    hits_where: NDArray[np.int32]
    misses: NDArray[np.int32]
    misses_where: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Tier(Generic[Stored]):
    """Rows of some nodes, copied to faster memory.

    Attributes:
        position: int32, shape (num_nodes,): each node's position in `rows`, -1 where it has none.
        rows: The copies.
    """

    position: NDArray[np.int32]
    rows: Stored

    @classmethod
    def of(cls, source: Stored, nodes: NDArray[np.int32], num_nodes: int) -> Self:
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
        """Overwrites the addresses in `table`, the rows of `ids`, of those that the tier holds; returns how many.

        The tier must outlive the table.
        """
        array = self.rows.array
        hits = kernels.redirect_nodes(array.ctypes.data, array.strides[0], self.position, ids, table.addresses)
        return int(hits)


class SparseTier(Tier[SparseRows]):
    """Sparse rows, which are copied by position."""

    __slots__ = ()

    def split(self, ids: NDArray[np.int32], where: NDArray[np.int32]) -> Split:
        """Returns `ids`, whose rows go to rows `where` of an output, as hits and misses."""
        return Split(*kernels.split(self.position, ids, where))
