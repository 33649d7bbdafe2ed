"""The protocol of graph servers: four methods of gRPC whose messages are bytes, little-endian.

| method | request | answer |
|---|---|---|
| About | nothing | JSON: the part, the graph, and the types of the columns |
| Column | key, name (16 bytes), first row, end (uint64 each) | rows of a column of the part's nodes |
| Neighbors | key, `NeighborDraw`, node ids (int32) | sampled in-neighbors (int32), row by row, of known lengths |
| Rows | key, 2 or 4 (bytes per value), node ids (int32) | feature rows, float16 or float32 |

The key contains the cut and the part, so a server of another graph at the same address is never mistaken for it. Every
request only reads, so it may be sent again. Nothing is pickled.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError
from a3gnn.sampling.hops import NeighborDraw
from a3gnn.units import count

SERVICE = "a3gnn.Parts"
METHODS = ("About", "Column", "Neighbors", "Rows")
#: Raised with each change of a message.
PROTOCOL_VERSION = 1
#: Name of the metadata with the token, as in HTTP.
TOKEN_HEADER = "authorization"
#: Environment variable with the token, for servers and clients.
TOKEN_VARIABLE = "A3GNN_PARTS_TOKEN"
#: Most bytes of an answer that a request asks for; more data travels in parallel requests. gRPC takes as many
#: in a message by default.
ASKED_BYTES = 1 << 22
#: Most node ids per request, and most bytes per answer, except for the row of a single node.
MAX_IDS, MAX_ANSWER_BYTES = 1 << 20, 2 * ASKED_BYTES
MAX_REQUEST_BYTES = 4 * MAX_IDS + 4096

_KEY = struct.Struct("<16sI")
_DRAW = struct.Struct("<iIQQQ")
_COLUMN = struct.Struct("<16sQQ")
_ROWS = struct.Struct("<I")


class RefusedError(A3GNNError):
    """A request that a server refuses; `code` is gRPC's name of the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Key(NamedTuple):
    """Identity of a part: the cut's 16 bytes, and the number of the part."""

    cut: bytes
    part: int

    def pack(self) -> bytes:
        """Returns the bytes of the key, with which requests begin."""
        return _KEY.pack(self.cut, self.part)


def neighbors_request(key: Key, draw: NeighborDraw, ids: NDArray[np.int32]) -> bytes:
    """Returns the request for in-neighbors of `ids`."""
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
        RefusedError: The request is too short.
    """
    if len(request) < _KEY.size:
        raise RefusedError(
            "INVALID_ARGUMENT", f"a request must begin with a key of {_KEY.size} bytes, got {len(request)}"
        )
    return Key(*_KEY.unpack_from(request)), memoryview(request)[_KEY.size :]


def read_draw(rest: memoryview) -> tuple[NeighborDraw, NDArray[np.int32]]:
    """Returns the draw and the ids of a `neighbors_request`, without its key.

    Raises:
        RefusedError: The bytes are not such a request.
    """
    draw = NeighborDraw(*_unpacked(_DRAW, rest))
    if draw.fanout < 1 and draw.fanout != -1:
        raise RefusedError("INVALID_ARGUMENT", f"a fanout must be >= 1, or -1 for all, got {draw.fanout}")
    return draw, _ids(rest[_DRAW.size :])


def read_rows(rest: memoryview) -> tuple[int, NDArray[np.int32]]:
    """Returns the bytes per value and the ids of a `rows_request`, without its key.

    Raises:
        RefusedError: The bytes are not such a request.
    """
    (itemsize,) = _unpacked(_ROWS, rest)
    return itemsize, _ids(rest[_ROWS.size :])


def read_column(rest: memoryview) -> tuple[str, int, int]:
    """Returns the name and the rows of a `column_request`, without its key.

    Raises:
        RefusedError: The bytes are not such a request.
    """
    name, first, end = _unpacked(_COLUMN, rest)
    return name.rstrip(b"\0").decode("latin-1"), first, end


def _unpacked(form: struct.Struct, rest: memoryview) -> tuple[Any, ...]:
    if len(rest) < form.size:
        raise RefusedError("INVALID_ARGUMENT", f"the request must have {form.size} more bytes, got {len(rest)}")
    return form.unpack_from(rest)


def _ids(rest: memoryview) -> NDArray[np.int32]:
    if len(rest) % 4 or not 1 <= len(rest) // 4 <= MAX_IDS:
        raise RefusedError(
            "INVALID_ARGUMENT", f"a request must have 1 to {MAX_IDS:,} ids of 4 bytes, got {count(len(rest), 'byte')}"
        )
    return np.frombuffer(rest, dtype=np.int32)
