"""An .npy file that is written in pieces, or opened as a memory map; and the hash of an array."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from a3gnn.storage.mapping import as_known, mapped
from a3gnn.storage.unfinished import GrowingFile, Mark

#: Bytes of a piece, and entries of one of `slices`: as many in float32. They bound what a pass over a memory map takes.
_PIECE_BYTES, PIECE = 1 << 22, 1 << 20


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


def slices(rows: int, width: int = 1) -> Iterator[slice]:
    """Returns the slices of `rows` rows of `width` entries, so that a pass over a memory map takes some MiB."""
    step = max(1, PIECE // max(1, width))
    return (slice(at, at + step) for at in range(0, rows, step))


def save_npy(path: Path, array: NDArray[Any], dtype: DTypeLike | None = None) -> Mark:
    """Writes `array` to the file at `path` in C order and as `dtype`, in pieces, so that a memory map stays on disk.

    Returns:
        The mark of the whole file.

    Raises:
        OSError: It can't be written.
    """
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    with GrowingFile(path) as file:
        file.append(memoryview(_header(array.shape, dtype)))
        for piece in pieces(array):
            file.append(piece.astype(dtype, copy=False).reshape(-1).view(np.uint8).data)
    return file.mark


class NpyWriter:
    """Writes an array of unknown length to an .npy file, with the same bytes as `np.save`; a context manager.

    NumPy pads the header for a first dimension of up to 21 digits, so it can be rewritten at the end.

    Args:
        path: The file.
        dtype: The array's dtype.
        columns: Columns of a matrix; None for a vector.
        mark: The `mark` of an unfinished file, which is continued from there; None begins anew.
    """

    def __init__(self, path: Path, dtype: DTypeLike, columns: int | None = None, mark: Mark | None = None) -> None:
        self._dtype = np.dtype(dtype)
        self._row_shape = () if columns is None else (columns,)
        self._length = mark.size // max(self._dtype.itemsize * math.prod(self._row_shape), 1) if mark else 0
        self._file = GrowingFile(path, mark or Mark(len(_header((0, *self._row_shape), self._dtype))))
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._finish()

    @property
    def mark(self) -> Mark:
        """The rows so far."""
        return self._file.mark

    def append(self, piece: NDArray[Any]) -> None:
        """Appends `piece`, rows of the array; other dtypes are cast."""
        rows = np.ascontiguousarray(piece, dtype=self._dtype)
        self._file.append(rows.reshape(-1).view(np.uint8).data)
        self._length += len(rows)

    def _finish(self) -> None:
        self._file.write_header(_header((self._length, *self._row_shape), self._dtype))


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return header.getvalue()


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Returns the shape of an .npy file, whether it is in Fortran order, and its dtype; `file` is then at its data.

    Raises:
        ValueError: It is not an .npy file.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    return shape, fortran, dtype


def open_npy(path: Path) -> NDArray[Any]:
    """Returns the array in the .npy file at `path` as a copy-on-write memory map, or in RAM if it is empty.

    Raises:
        OSError: It can't be read.
        ValueError: It is truncated, longer than its header says, not an .npy file, or contains Python objects.
    """
    with path.open("rb") as file:
        shape, fortran, dtype = read_header(file)
        # Check before mapping: a process that reads a map beyond the end of its file is killed.
        expected, size = file.tell() + math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size
        if size != expected and not dtype.hasobject:
            raise ValueError(f"it must have {expected:,} bytes by its header, got {size:,}")
        mappable = math.prod(shape) and not dtype.hasobject
        array = mapped(path, file, shape, dtype, fortran=fortran) if mappable else np.load(path, allow_pickle=False)
    return as_known(np.asarray(array))
