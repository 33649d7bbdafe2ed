"""Arrays of an .npz file where they are: maps of stored members, and pipes through compressed ones."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.storage.mapping import mapped
from a3gnn.storage.npy import read_header

_PIECE_BYTES = 1 << 22
# Of a member's header before its name: its length, and where the lengths of name and extra field are (APPNOTE 4.3.7).
_LOCAL_BYTES, _NAME_AT = 30, 26
_ENCRYPTED = 0x1


@dataclass(frozen=True, slots=True)
class Member:
    """An array in an .npz file."""

    path: Path  # the file
    info: zipfile.ZipInfo  # the member
    shape: tuple[int, ...]  # shape of the array
    fortran: bool  # whether it is in Fortran order
    dtype: np.dtype[Any]
    header: int  # bytes before its data in the member
    begin: int | None  # the member's first byte in the file; None if it is compressed

    @classmethod
    def read(cls, path: Path, archive: zipfile.ZipFile, name: str) -> Member:
        """Returns the array called `name` in the opened `archive` at `path`.

        Raises:
            ValueError: It is truncated, not an array, or contains Python objects.
            Exception: Whatever `zipfile` raises for damaged files.
        """
        info = next(one for one in reversed(archive.infolist()) if one.filename.removesuffix(".npy") == name)
        with archive.open(info) as stream:
            shape, fortran, dtype = read_header(stream)
            header = stream.tell()
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded")
        expected = header + math.prod(shape) * dtype.itemsize
        if info.file_size != expected:
            raise ValueError(f"{info.filename} must have {expected:,} bytes by its header, got {info.file_size:,}")
        begin = None
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & _ENCRYPTED:
            begin = _begin(path, info)
        return cls(path, info, shape, fortran and len(shape) > 1, dtype, header, begin)

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self) -> NDArray[Any]:
        """Returns the array of a stored member as a copy-on-write memory map, maybe not aligned; in RAM if empty.

        The checksum is not compared.

        Raises:
            OSError: It can't be mapped.
        """
        assert self.begin is not None
        if not math.prod(self.shape):
            return np.empty(self.shape, dtype=self.dtype)
        with self.path.open("rb") as file:
            file.seek(self.begin + self.header)
            return np.asarray(mapped(self.path, file, self.shape, self.dtype, fortran=self.fortran))

    def check(self, on_bytes: Callable[[int], None]) -> None:
        """Compares a stored member with its checksum in pieces; `on_bytes` takes the bytes read so far.

        Raises:
            zipfile.BadZipFile: It has another one.
        """
        assert self.begin is not None
        checksum, left = 0, self.info.file_size
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.begin)
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                checksum = zlib.crc32(piece, checksum)
                left -= len(piece)
                on_bytes(self.info.file_size - left)
        self._compare(checksum)

    def checked(self, rows: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yields all `rows` of a stored array in C order, and compares the member with its checksum at the end.

        Raises:
            zipfile.BadZipFile: It has another one.
        """
        assert self.begin is not None
        with self.path.open("rb") as file:
            file.seek(self.begin)
            checksum = zlib.crc32(file.read(self.header))
        for piece in rows:
            checksum = zlib.crc32(piece.reshape(-1).view(np.uint8).data, checksum)
            yield piece
        self._compare(checksum)

    def _compare(self, checksum: int) -> None:
        if checksum != self.info.CRC:
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {self.info.filename!r}")


class Pipe:
    """The array of a compressed member, read in order, in slices of rows, or of columns of two rows.

    It answers what a conversion asks of an array. A slice before the previous one decompresses the member again from
    its beginning. The last byte is only returned if the checksum of the member is right.

    Args:
        archive: The opened file, which must stay open.
        reading: Makes the context of every read, which may turn errors of damaged files into others.
    """

    def __init__(
        self, archive: zipfile.ZipFile, member: Member, reading: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._archive, self._member, self._reading = archive, member, reading
        self._streams: dict[int, tuple[IO[bytes], int]] = {}
        self.shape, self.dtype = member.shape, member.dtype
        self.ndim, self.size, self.nbytes = len(self.shape), math.prod(self.shape), member.nbytes

    def close(self) -> None:
        """Ends reading."""
        for stream, _ in self._streams.values():
            stream.close()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: slice | tuple[slice, slice]) -> NDArray[Any]:
        if isinstance(key, tuple):
            first, last, _ = key[1].indices(self.shape[1])
            if self._member.fortran:
                return self._values(0, first * len(self), (last - first) * len(self)).reshape(-1, len(self)).T
            rows = [self._values(row, row * self.shape[1] + first, last - first) for row in range(len(self))]
            return np.stack(rows)
        first, last, _ = key.indices(len(self))
        width = math.prod(self.shape[1:])
        return self._values(0, first * width, (last - first) * width).reshape(last - first, *self.shape[1:])

    def _opened(self, stream: int) -> IO[bytes]:
        if stream in self._streams:
            self._streams[stream][0].close()
        file = self._archive.open(self._member.info)
        self._streams[stream] = file, 0
        return file

    def _values(self, stream: int, first: int, number: int) -> NDArray[Any]:
        """Returns values from `first` on in the member's order, by one of several streams, each of which goes ahead."""
        begin, size = self._member.header + first * self.dtype.itemsize, number * self.dtype.itemsize
        data = bytearray(size)
        with self._reading():
            file, at = self._streams.get(stream, (None, 0))
            if file is None or at > begin:
                file, at = self._opened(stream), 0
            while at < begin:
                at += len(_read(file, min(begin - at, _PIECE_BYTES)))
            for done in range(0, size, _PIECE_BYTES):
                piece = min(size - done, _PIECE_BYTES)
                data[done : done + piece] = _read(file, piece)
            if at + size == self._member.info.file_size:
                file.read(1)  # compares the checksum
        self._streams[stream] = file, at + size
        return np.frombuffer(data, dtype=self.dtype)


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("it ends early")
    return data


def _begin(path: Path, info: zipfile.ZipInfo) -> int:
    """Returns the first byte of a stored member's content in the file at `path`."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(_LOCAL_BYTES)
        lengths = np.frombuffer(local, dtype="<u2", count=2, offset=_NAME_AT)
        begin = info.header_offset + _LOCAL_BYTES + int(lengths[0]) + int(lengths[1])
        if begin + info.file_size > file.seek(0, 2):
            raise EOFError(f"{info.filename} ends early")
        return begin
