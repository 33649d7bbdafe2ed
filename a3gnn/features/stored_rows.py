"""Feature rows as they are stored, dense or CSR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.row_kernels import gather_csr, row_lengths, widen
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.halves import as_halves
from a3gnn.storage.compiled import readonly


class CsrArrays(NamedTuple):
    """The arrays of a CSR matrix: indptr int64, indices int32, data."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class DenseRows:
    """Dense rows: float32 or float16, shape (num_rows, num_features), read-only; possibly a memory map."""

    array: NDArray[Any]

    @classmethod
    def of(cls, features: DenseFeatures) -> Self:
        """Returns the rows of `features`, not copied."""
        return cls(readonly(features.array))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.array.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(self.array.shape[1] * self.array.itemsize)

    def take(self, nodes: NDArray[np.int32]) -> DenseRows:
        """Returns a compact copy of the rows of `nodes`, in anonymous memory, as stored."""
        return DenseRows(readonly(np.take(self.array, nodes, axis=0)))

    def copied(self) -> DenseRows:
        """Returns a copy of all rows in anonymous memory."""
        return DenseRows(readonly(np.array(self.array)))

    def halved(self) -> DenseRows:
        """Returns all rows in anonymous memory as float16.

        Raises:
            ConfigError: A value is beyond float16's range.
        """
        return DenseRows(readonly(as_halves(self.array)))

    def sizes(self, value_bytes: int) -> NDArray[np.int64]:
        """Returns the bytes of a copy of each row with values of `value_bytes`, int64, shape (num_rows,)."""
        return np.full(len(self.array), self.array.shape[1] * value_bytes)

    def num_that_fit(self, nodes: NDArray[np.int32], nbytes: int) -> int:
        """Returns how many rows, of `nodes` from the first on, fit in `nbytes` as copies made by `take`."""
        return min(len(nodes), nbytes // max(self.row_bytes, 1))


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """CSR rows: indptr int64, shape (num_rows + 1,); indices int32; data float32 or float16; all read-only."""

    csr: CsrArrays

    @classmethod
    def of(cls, features: SparseFeatures) -> Self:
        """Returns the rows of `features`, not copied."""
        return cls(CsrArrays(readonly(features.indptr), readonly(features.indices), readonly(features.data)))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(array.nbytes for array in self.csr)

    def take(self, nodes: NDArray[np.int32]) -> SparseRows:
        """Returns a compact copy of the rows of `nodes`, in anonymous memory, as stored."""
        where = np.arange(len(nodes), dtype=np.int32)
        indptr = np.zeros(len(nodes) + 1, dtype=np.int64)
        self.lengths(nodes, where, indptr[1:])
        np.cumsum(indptr, out=indptr)
        data = np.empty(indptr[-1], dtype=self.csr.data.dtype)
        copy = CsrArrays(indptr, np.empty(indptr[-1], dtype=np.int32), data)
        self.fill(nodes, where, copy)
        return SparseRows(CsrArrays(*(readonly(array) for array in copy)))

    def copied(self) -> SparseRows:
        """Returns a copy of all rows in anonymous memory."""
        return SparseRows(CsrArrays(*(readonly(np.array(array)) for array in self.csr)))

    def halved(self) -> SparseRows:
        """Returns all rows in anonymous memory, with float16 values.

        Raises:
            ConfigError: A value is beyond float16's range.
        """
        indptr, indices, data = self.csr
        copies = np.array(indptr), np.array(indices), as_halves(data)
        return SparseRows(CsrArrays(*(readonly(array) for array in copies)))

    def sizes(self, value_bytes: int) -> NDArray[np.int64]:
        """Returns the bytes of a copy of each row with values of `value_bytes`, int64, shape (num_rows,)."""
        indptr, indices, _ = self.csr
        return np.diff(indptr) * (indices.itemsize + value_bytes) + indptr.itemsize

    def num_that_fit(self, nodes: NDArray[np.int32], nbytes: int) -> int:
        """Returns how many rows, of `nodes` from the first on, fit in `nbytes` as copies made by `take`."""
        room = nbytes - self.csr.indptr.itemsize
        return int(np.searchsorted(np.cumsum(self.sizes(self.csr.data.itemsize)[nodes]), room, side="right"))

    def lengths(self, ids: NDArray[np.int32], where: NDArray[np.int32], out: NDArray[np.int64]) -> None:
        """Writes the number of stored entries of the rows of `ids` to `out[where]`."""
        row_lengths(self.csr.indptr, ids, where, out)

    def fill(self, ids: NDArray[np.int32], where: NDArray[np.int32], out: CsrArrays) -> None:
        """Writes the rows of `ids`, as stored, to rows `where` of `out`; the caller has set its indptr."""
        indptr, indices, data = self.csr
        gather_csr((indptr, indices, bits(data)), ids, where, (out.indptr, out.indices, bits(out.data)))


StoredRows = DenseRows | SparseRows


def rows_of(features: DenseFeatures | SparseFeatures) -> StoredRows:
    """Returns the rows of a graph's features, not copied."""
    return SparseRows.of(features) if isinstance(features, SparseFeatures) else DenseRows.of(features)


def widened(data: NDArray[Any]) -> NDArray[np.float32]:
    """Returns `data`, float32 or float16 of one dimension, as float32."""
    if data.dtype == np.float32:
        return data
    wide = np.empty(len(data), dtype=np.float32)
    widen(bits(data), wide)
    return wide


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """Returns `array` in the form for kernels: float16 as uint16, because numba has no float16 on the CPU."""
    return array.view(np.uint16) if array.dtype == np.float16 else array
