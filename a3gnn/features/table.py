"""`RowTable`: rows that lie in several arrays, by their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.row_kernels import locate


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """Feature rows in an order of their own, wherever each is stored.

    Attributes:
        addresses: Where each row begins, int64, shape (num_rows,).
        stored: As long as a row and of its dtype (float32, or uint16 for the bits of float16); its values mean nothing.
        owners: The arrays that the addresses point into: they live as long as the table.
    """

    addresses: NDArray[np.int64]
    stored: NDArray[Any]
    owners: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Self:
        """Returns the rows of `array`, float32 or float16, shape (num_rows, width), in order."""
        table = cls(np.empty(len(array), dtype=np.int64), blank_row(array), (array,))
        locate(array.ctypes.data, array.strides[0], np.arange(len(array), dtype=np.int32), table.addresses)
        return table

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.stored)


def blank_row(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a row's length and stored dtype as kernels want them, for the rows of `array`.

    Raises:
        ValueError: `array` is not a contiguous matrix.
    """
    if array.ndim != 2 or not array.flags.c_contiguous:
        raise ValueError(f"rows read by address need a contiguous matrix, got strides {array.strides}")
    return np.empty(array.shape[1], dtype=np.uint16 if array.dtype == np.float16 else array.dtype)
