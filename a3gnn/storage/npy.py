"""An .npy file that is written in pieces, or opened as a memory map; and the hash of an array."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from a3gnn.storage.mapping import as_known, mapped

#: Bytes of a piece.
_PIECE_BYTES = 1 << 22


def content_hash(array: NDArray[Any]) -> str:
    """Returns the hash of the content of `array` in C order (BLAKE2b of 16 bytes, in hexadecimal)."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces(array):
        digest.update(piece.data)
    return digest.hexdigest()


def pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yields the entries of `array` in C order, in contiguous arrays of at most `_PIECE_BYTES`, or of one entry."""
    array = np.atleast_1d(array)
    row_bytes = math.prod(array.shape[1:]) * array.itemsize
    if array.ndim > 1 and row_bytes > _PIECE_BYTES:
        for row in array:
            yield from pieces(row)
        return
    rows = max(1, _PIECE_BYTES // max(1, row_bytes))
    for start in range(0, len(array), rows):
        yield np.ascontiguousarray(array[start : start + rows])


def save_npy(path: Path, array: NDArray[Any], dtype: DTypeLike | None = None) -> None:
    """Writes `array` to the file at `path` in C order and as `dtype`, in pieces, so that a memory map stays on disk.

    Raises:
        OSError: It can't be written.
    """
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": array.shape})
        for piece in pieces(array):
            file.write(piece.astype(dtype, copy=False).reshape(-1).view(np.uint8).data)


class NpyWriter:
    """Writes an array of unknown length to an .npy file, with the same bytes as `np.save`; a context manager.

    NumPy pads the header for a first dimension of up to 21 digits, so it can be rewritten at the end.

    Args:
        path: The file.
        dtype: The array's dtype.
        columns: Columns of a matrix; None for a vector.
    """

    def __init__(self, path: Path, dtype: DTypeLike, columns: int | None = None) -> None:
        self._dtype = np.dtype(dtype)
        self._row_shape = () if columns is None else (columns,)
        self._length = 0
        self._file = path.open("wb")
        self._header()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._header()

    def append(self, piece: NDArray[Any]) -> None:
        """Appends `piece`, rows of the array; other dtypes are cast."""
        rows = np.ascontiguousarray(piece, dtype=self._dtype)
        self._file.write(rows.data.cast("B") if rows.size else b"")
        self._length += len(rows)

    def _header(self) -> None:
        shape = (self._length, *self._row_shape)
        np.lib.format.write_array_header_1_0(
            self._file, {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        )


def open_npy(path: Path) -> NDArray[Any]:
    """Returns the array in the .npy file at `path` as a copy-on-write memory map, or in RAM if it is empty.

    Raises:
        OSError: It can't be read.
        ValueError: It is truncated, longer than its header says, not an .npy file, or contains Python objects.
    """
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        # Check before mapping: a process that reads a map beyond the end of its file is killed.
        expected, size = file.tell() + math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size
        if size != expected and not dtype.hasobject:
            raise ValueError(f"it must have {expected:,} bytes by its header, got {size:,}")
        mappable = math.prod(shape) and not dtype.hasobject
        array = mapped(path, file, shape, dtype, fortran=fortran) if mappable else np.load(path, allow_pickle=False)
    return as_known(np.asarray(array))
