"""A graph's feature matrix as it is stored: dense rows or CSR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The types of stored values.
FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


def stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type in which values of `dtype` are stored: float16 for halves, else float32."""
    return FLOATS[1] if dtype.name == "float16" else FLOATS[0]


def dtype_notes(name: str) -> tuple[str, ...]:
    """Returns the note on features of the type `name` that are stored as float32; nothing for stored types."""
    stored = name in {dtype.name for dtype in FLOATS}
    return () if stored else (f"features were {name}; they are stored as float32",)


@dataclass(frozen=True, slots=True, eq=False)
class DenseFeatures:
    """A dense feature matrix."""

    array: NDArray[np.floating]  # float32 or float16, shape (num_nodes, num_features), C order; possibly a memory map

    @property
    def shape(self) -> tuple[int, int]:
        """(num_nodes, num_features)."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes as stored."""
        return self.array.nbytes

    @property
    def is_sparse(self) -> bool:
        """False."""
        return False

    @property
    def density(self) -> float:
        """Share of stored entries: 1."""
        return 1.0

    @property
    def row_bytes(self) -> float:
        """Bytes of one row as stored."""
        return float(self.shape[1] * self.array.itemsize)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays by the names that npz files and folders give them."""
        return {"x": self.array}


@dataclass(frozen=True, slots=True, eq=False)
class SparseFeatures:
    """A feature matrix in CSR: row v holds `data[indptr[v]:indptr[v + 1]]` at columns `indices[...]`, ascending."""

    data: NDArray[np.floating]  # float32 or float16, shape (num_stored,)
    indices: NDArray[np.int32]  # columns, int32, shape (num_stored,)
    indptr: NDArray[np.int64]  # int64, shape (num_nodes + 1,)
    shape: tuple[int, int]  # (num_nodes, num_features)

    @property
    def nbytes(self) -> int:
        """Bytes as stored."""
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes

    @property
    def is_sparse(self) -> bool:
        """True."""
        return True

    @property
    def density(self) -> float:
        """Share of stored entries, in [0, 1]."""
        return len(self.data) / max(self.shape[0] * self.shape[1], 1)

    @property
    def row_bytes(self) -> float:
        """Mean bytes of one row as stored, its share of `indptr` included."""
        return self.nbytes / max(self.shape[0], 1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays by the names that npz files and folders give them."""
        shape = np.array(self.shape, dtype=np.int64)
        return {"x_data": self.data, "x_indices": self.indices, "x_indptr": self.indptr, "x_shape": shape}


def features_from(arrays: dict[str, NDArray[Any]]) -> DenseFeatures | SparseFeatures:
    """Returns the features among `arrays`, by the names of `arrays()`; their dtypes are not checked."""
    if "x" in arrays:
        return DenseFeatures(arrays["x"])
    rows, columns = (int(size) for size in arrays["x_shape"])
    return SparseFeatures(arrays["x_data"], arrays["x_indices"], arrays["x_indptr"], (rows, columns))
