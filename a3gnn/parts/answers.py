"""`PartAnswers`: a graph server's answers about its part, from bytes to bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import ConfigError
from a3gnn.graphs.halves import as_halves
from a3gnn.parts.part import Part
from a3gnn.parts.part_kernels import draw_rows
from a3gnn.parts.protocol import (
    MAX_ANSWER_BYTES,
    PROTOCOL_VERSION,
    Key,
    RefusedError,
    read_column,
    read_draw,
    read_key,
    read_rows,
)
from a3gnn.sampling.kernel_types import readonly


class PartAnswers:
    """Answers requests about one part, from any thread; every answer is bounded, and every id checked."""

    def __init__(self, part: Part) -> None:
        self._part, self._key = part, Key(part.cut, part.number)
        self._nodes, self._indptr, self._indices = (
            readonly(array) for array in (part.nodes, part.indptr, part.indices)
        )
        self._columns: dict[str, NDArray[Any]] = {
            "nodes": part.nodes,
            "labels": part.labels,
            "roles": part.roles,
            "loops": part.loops,
            "entries": part.entries,
            "degrees": np.diff(part.indptr).astype(np.int32),
        }
        self.methods = {
            "About": self.about,
            "Column": self.column,
            "Neighbours": self.neighbours,
            "Rows": self.rows,
        }

    def warm_up(self) -> None:
        """Compiles the kernels, or loads them from numba's cache, before the first request."""
        nothing = np.zeros(0, dtype=np.int32)
        draw_rows(self._indptr, self._indices, nothing, readonly(nothing), 1, *(np.uint64(0),) * 4)

    def about(self, request: bytes) -> bytes:
        """Returns a description of the part: protocol version, columns and features, as JSON."""
        columns = {name: [array.dtype.str, list(array.shape)] for name, array in self._columns.items()}
        features = [self._part.x.dtype.str, self._part.x.shape[1]]
        told = {"protocol": PROTOCOL_VERSION, **self._part.about, "columns": columns, "features": features}
        return json.dumps(told).encode()

    def column(self, request: bytes) -> bytes:
        """Returns rows of a column.

        Raises:
            RefusedError: The column or the rows don't exist, the answer is too large, or the request is for another
                part.
        """
        name, first, end = read_column(self._checked(request))
        if name not in self._columns or not first <= end <= self._part.num_nodes:
            raise RefusedError(
                "INVALID_ARGUMENT",
                f"a column must be one of {', '.join(self._columns)}, and its rows in [0, {self._part.num_nodes}], got "
                f"{name!r} from {first} to {end}",
            )
        rows = self._columns[name][first:end]
        _bound(rows.nbytes, end - first)
        return rows.tobytes()

    def neighbours(self, request: bytes) -> bytes:
        """Returns sampled in-neighbours.

        Raises:
            RefusedError: A node is not in the part, the answer is too large, or the request is for another part.
        """
        draw, ids = read_draw(self._checked(request))
        rows = self._rows_of(ids)
        degrees = self._indptr[rows + 1] - self._indptr[rows]
        count = int((degrees if draw.fanout < 0 else np.minimum(degrees, draw.fanout)).sum())
        _bound(4 * count, len(ids))
        keys = (np.uint64(value) for value in (draw.seed, draw.epoch, draw.batch, draw.hop))
        drawn = draw_rows(self._indptr, self._indices, rows.astype(np.int32), ids, draw.fanout, *keys)
        answer: bytes = drawn.tobytes()
        return answer

    def rows(self, request: bytes) -> bytes:
        """Returns feature rows.

        Raises:
            RefusedError: A node is not in the part, the answer is too large, a value does not fit, or the request is
                for another part.
        """
        itemsize, ids = read_rows(self._checked(request))
        x = self._part.x
        if itemsize not in (2, 4) or itemsize > x.itemsize:
            raise RefusedError("INVALID_ARGUMENT", f"values must be read with 2 to {x.itemsize} bytes, got {itemsize}")
        _bound(itemsize * x.shape[1] * len(ids), len(ids))
        found = np.take(x, self._rows_of(ids), axis=0)
        if itemsize < x.itemsize:
            try:
                found = as_halves(found)
            except ConfigError as error:
                raise RefusedError("OUT_OF_RANGE", str(error)) from error
        return found.tobytes()

    def _checked(self, request: bytes) -> memoryview:
        """Returns `request` without its key, which must be the key of this part."""
        key, rest = read_key(request)
        if key != self._key:
            raise RefusedError(
                "FAILED_PRECONDITION",
                f"the request is for part {key.part} of the cut {key.cut.hex()}, this is part {self._key.part} of "
                f"{self._key.cut.hex()}",
            )
        return rest

    def _rows_of(self, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Returns the rows of `ids` in the part."""
        rows = np.searchsorted(self._nodes, ids)
        if (self._nodes[np.minimum(rows, len(self._nodes) - 1)] != ids).any():
            raise RefusedError("INVALID_ARGUMENT", f"ids must be nodes of part {self._key.part}, some are not")
        return rows


def _bound(num_bytes: int, rows: int) -> None:
    if num_bytes > MAX_ANSWER_BYTES and rows > 1:
        raise RefusedError(
            "INVALID_ARGUMENT",
            f"an answer must have at most {MAX_ANSWER_BYTES:,} bytes, {num_bytes:,} are asked for; ask for fewer rows",
        )
