"""`Tier`: rows of some nodes in faster memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.kernels import split
from a3gnn.features.policies.fixed_map import FixedMap
from a3gnn.features.row_kernels import relocate
from a3gnn.features.rows import DenseRows, FeatureRows
from a3gnn.features.table import RowTable


class Split(NamedTuple):
    """Ids by whether a tier has their rows, in order; all int32.

    Attributes:
        places: Of those that it has: places in its rows.
        places_at: And where they are wanted.
        ids: Of those that it has not: the ids.
        ids_at: And where they are wanted.
    """

    places: NDArray[np.int32]
    places_at: NDArray[np.int32]
    ids: NDArray[np.int32]
    ids_at: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Tier:
    """Rows of some nodes, copied to faster memory.

    Attributes:
        position: int32, shape (num_nodes,): a node's place in `rows`, -1 where it has none.
        rows: The copies.
    """

    position: NDArray[np.int32]
    rows: FeatureRows

    @classmethod
    def of(cls, source: FeatureRows, nodes: NDArray[np.int32], num_nodes: int) -> Self:
        """Returns the tier that holds the rows of `nodes` (distinct)."""
        return cls(FixedMap(nodes, num_nodes).position, source.take(nodes))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self.position.nbytes + self.rows.nbytes

    def split(self, ids: NDArray[np.int32], where: NDArray[np.int32]) -> Split:
        """Returns `ids`, wanted at rows `where` of an output, by whether their rows are here."""
        return Split(*split(self.position, ids, where))

    def redirect(self, ids: NDArray[np.int32], table: RowTable) -> int:
        """Overwrites the addresses in `table`, the rows of `ids`, of those that are here; returns how many.

        The rows must be dense, and the tier outlive the table.
        """
        if not isinstance(self.rows, DenseRows):
            raise TypeError("rows have addresses only where they are dense")
        array = self.rows.array
        return int(relocate(array.ctypes.data, array.strides[0], self.position, ids, table.addresses))
