"""What is asked of a graph server, and how: four methods of gRPC whose messages are bytes, little-endian.

| method | request | answer |
|---|---|---|
| About | nothing | JSON: the part, the graph, and what the columns hold |
| Column | key, name (16 bytes), first row, end (uint64 each) | rows of a column of the part's nodes |
| Neighbours | key, `NeighbourDraw`, node ids (int32) | sampled in-neighbours (int32), row by row, of known lengths |
| Rows | key, 2 or 4 (bytes per value), node ids (int32) | feature rows, float16 or float32 |

The key names the cut and the part, so that no server of another graph is ever taken for the one that was there before.
Every request only reads: it may be sent again. Nothing is pickled.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError
from a3gnn.units import count

SERVICE = "a3gnn.Parts"
METHODS = ("About", "Column", "Neighbours", "Rows")
#: Raised when a message changes.
PROTOCOL_VERSION = 1
#: The metadata that carries the token, as HTTP has it.
TOKEN_HEADER = "authorization"
#: The environment variable that holds it, for who serves and for who asks.
TOKEN_VARIABLE = "A3GNN_PARTS_TOKEN"
#: Bytes of an answer that a request asks for, at most: more of them travel at once. Guess.
ASKED_BYTES = 1 << 22
#: Node ids that a request may hold, and bytes that an answer may have but for a single node's row.
MAX_IDS, MAX_ANSWER_BYTES = 1 << 20, 2 * ASKED_BYTES
MAX_REQUEST_BYTES = 4 * MAX_IDS + 4096

_KEY = struct.Struct("<16sI")
_DRAW = struct.Struct("<iIQQQ")
_COLUMN = struct.Struct("<16sQQ")
_ROWS = struct.Struct("<I")


class RefusedError(A3GNNError):
    """A request that a server does not answer; `code` is gRPC's name of the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Key(NamedTuple):
    """Which part is meant: the cut's 16 bytes, and the number of the part."""

    cut: bytes
    part: int

    def pack(self) -> bytes:
        """Returns the key as requests begin with it."""
        return _KEY.pack(self.cut, self.part)


class NeighbourDraw(NamedTuple):
    """How in-neighbours are drawn: `fanout` per node, -1 for all, by random numbers that the others key."""

    fanout: int
    hop: int = 0
    seed: int = 0
    epoch: int = 0
    batch: int = 0


def neighbours_request(key: Key, draw: NeighbourDraw, ids: NDArray[np.int32]) -> bytes:
    """Returns the request for in-neighbours of `ids`."""
    return key.pack() + _DRAW.pack(*draw) + ids.tobytes()


def rows_request(key: Key, dtype: np.dtype[np.floating], ids: NDArray[np.int32]) -> bytes:
    """Returns the request for feature rows of `ids` as `dtype`."""
    return key.pack() + _ROWS.pack(dtype.itemsize) + ids.tobytes()


def column_request(key: Key, name: str, first: int, end: int) -> bytes:
    """Returns the request for rows [first, end) of the column `name`."""
    return key.pack() + _COLUMN.pack(name.encode(), first, end)


def read_key(request: bytes) -> tuple[Key, memoryview]:
    """Returns the key that `request` begins with, and the rest.

    Raises:
        RefusedError: It is too short.
    """
    if len(request) < _KEY.size:
        raise RefusedError(
            "INVALID_ARGUMENT", f"a request must begin with a key of {_KEY.size} bytes, got {len(request)}"
        )
    return Key(*_KEY.unpack_from(request)), memoryview(request)[_KEY.size :]


def read_draw(rest: memoryview) -> tuple[NeighbourDraw, NDArray[np.int32]]:
    """Returns what `neighbours_request` was given.

    Raises:
        RefusedError: It is not such a request.
    """
    draw = NeighbourDraw(*_unpacked(_DRAW, rest))
    if draw.fanout < 1 and draw.fanout != -1:
        raise RefusedError("INVALID_ARGUMENT", f"a fanout must be >= 1, or -1 for all, got {draw.fanout}")
    return draw, _ids(rest[_DRAW.size :])


def read_rows(rest: memoryview) -> tuple[int, NDArray[np.int32]]:
    """Returns the bytes per value and the ids that `rows_request` was given.

    Raises:
        RefusedError: It is not such a request.
    """
    (itemsize,) = _unpacked(_ROWS, rest)
    return itemsize, _ids(rest[_ROWS.size :])


def read_column(rest: memoryview) -> tuple[str, int, int]:
    """Returns what `column_request` was given.

    Raises:
        RefusedError: It is not such a request.
    """
    name, first, end = _unpacked(_COLUMN, rest)
    return name.rstrip(b"\0").decode("latin-1"), first, end


def _unpacked(form: struct.Struct, rest: memoryview) -> tuple[Any, ...]:
    if len(rest) < form.size:
        raise RefusedError("INVALID_ARGUMENT", f"the request must hold {form.size} bytes more, got {len(rest)}")
    return form.unpack_from(rest)


def _ids(rest: memoryview) -> NDArray[np.int32]:
    if len(rest) % 4 or not 1 <= len(rest) // 4 <= MAX_IDS:
        raise RefusedError(
            "INVALID_ARGUMENT", f"a request must hold 1 to {MAX_IDS:,} ids of 4 bytes, got {count(len(rest), 'byte')}"
        )
    return np.frombuffer(rest, dtype=np.int32)
