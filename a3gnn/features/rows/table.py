"""`RowTable`: dense rows of several arrays, by address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.rows.kernels import locate


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """A list of dense rows, each given by its address in one of several arrays.

    Attributes:
        addresses: Where each row begins, int64, shape (num_rows,).
        row_like: An array of a row's length and stored dtype, float32, or uint16 for the bits of float16 and int16
            for those of bfloat16; the kernels read no value of it.
        owners: The arrays that the addresses point into, kept alive by the table.
    """

    addresses: NDArray[np.int64]
    row_like: NDArray[Any]
    owners: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Self:
        """Returns the rows of `array` in order; float32, float16 or the bits of bfloat16 as int16, a matrix."""
        table = cls(np.empty(len(array), dtype=np.int64), row_like(array), (array,))
        locate(array.ctypes.data, array.strides[0], np.arange(len(array), dtype=np.int32), table.addresses)
        return table

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.row_like)


def row_like(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array of the length and stored dtype of a row of `array` (`RowTable.row_like`).

    Raises:
        ValueError: `array` is not a contiguous matrix.
    """
    if array.ndim != 2 or not array.flags.c_contiguous:
        raise ValueError(f"rows read by address need a contiguous matrix, got strides {array.strides}")
    return np.empty(array.shape[1], dtype=np.uint16 if array.dtype == np.float16 else array.dtype)
