"""`PartsClient`: the joined answers of all graph servers, in the order of the request."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphServerError
from a3gnn.graphs.arrays import row_spans
from a3gnn.parts.link import LinkTraffic, Listener, PartLink, TrafficCounter
from a3gnn.parts.part_kernels import put_rows
from a3gnn.parts.protocol import ASKED_BYTES, MAX_IDS, Key, column_request, neighbors_request, rows_request
from a3gnn.sampling.hops import NeighborDraw

#: Requests for a column in flight at once. Guess.
_COLUMN_REQUESTS = 4


class Held(NamedTuple):
    """Rows from one message: row i of `array` belongs to the id at `places[i]` of the request."""

    places: NDArray[np.int64]
    array: NDArray[Any]


class PartsClient:
    """Requests data from the server of each part. Thread-safe.

    Requests to all servers are in flight at once, large ones in pieces of some MiB.

    Args:
        links: One per part, in order.
        cut: The cut's 16 bytes.
        owners: Each node's part, uint8, shape (num_nodes,).
        counter: The traffic counter of the links.
        listener: The listener of the links.
    """

    def __init__(
        self,
        links: Sequence[PartLink],
        cut: bytes,
        owners: NDArray[np.uint8],
        counter: TrafficCounter,
        listener: Listener,
    ) -> None:
        self._links, self.listener, self._counter = links, listener, counter
        self._keys = [Key(cut, part) for part in range(len(links))]
        self.owners = owners
        self._close = weakref.finalize(self, _close, links)

    @property
    def addresses(self) -> list[str]:
        """Addresses of the servers, by part."""
        return [link.address for link in self._links]

    @property
    def traffic(self) -> LinkTraffic:
        """The traffic so far."""
        return self._counter.traffic

    def close(self) -> None:
        """Ends the connections."""
        self._close()

    def neighbors(self, ids: NDArray[np.int32], counts: NDArray[np.int64], draw: NeighborDraw) -> NDArray[np.int32]:
        """Returns in-neighbors of `ids`, row by row, int32.

        Args:
            ids: Nodes, in range.
            counts: Number of in-neighbors per node, int64: all of them, or `draw.fanout` if that is less.
            draw: Fanout and keys of the random draw.

        Raises:
            GraphServerError: A server refuses, can't be reached, or returns an invalid answer.
        """
        starts = np.cumsum(counts) - counts
        out = np.empty(int(counts.sum()), dtype=np.int32)
        asked = []
        for part, places in self._by_part(ids, 4 * counts):
            request = neighbors_request(self._keys[part], draw, ids[places])
            asked.append((part, places, self._links[part].ask("Neighbors", request)))
        for part, places, answer in asked:
            expected = int(counts[places].sum())
            put_rows(self._array(part, answer.wait(), np.int32, expected), places, starts, counts, out)
        if len(out) and (out.min() < 0 or out.max() >= len(self.owners)):
            raise GraphServerError(
                f"in-neighbors must be in [0, {len(self.owners)}), got {out.min()} to {out.max()} from graph servers; "
                "run this version of a3gnn on all of them"
            )
        return out

    def rows(self, ids: NDArray[np.int32], dtype: np.dtype[np.floating], columns: int) -> list[Held]:
        """Returns feature rows of `ids`, one array per message: read-only, shape (n, columns).

        Raises:
            GraphServerError: A server refuses, or can't be reached.
        """
        sizes = np.full(len(ids), dtype.itemsize * columns)
        asked = []
        for part, places in self._by_part(ids, sizes):
            request = rows_request(self._keys[part], dtype, ids[places])
            asked.append((part, places, self._links[part].ask("Rows", request)))
        return [
            Held(places, self._array(part, answer.wait(), dtype, columns * len(places)).reshape(-1, columns))
            for part, places, answer in asked
        ]

    def column(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> NDArray[Any]:
        """Returns a column of all nodes, a row of `dtype` and `shape` for each.

        Raises:
            GraphServerError: A server refuses, or can't be reached.
        """
        whole = np.empty((len(self.owners), *shape), dtype=dtype)
        for part, (link, key) in enumerate(zip(self._links, self._keys, strict=True)):
            nodes = np.flatnonzero(self.owners == part)
            whole[nodes] = read_column(link, key, name, len(nodes), dtype, shape)
        return whole

    def _by_part(
        self, ids: NDArray[np.int32], num_bytes: NDArray[np.integer]
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yields parts, and places of their nodes in `ids` with some MiB of answers; leaves out answers of 0 bytes."""
        owners = self.owners[ids]
        order = np.argsort(owners, kind="stable")
        order = order[num_bytes[order] > 0]
        ends = np.searchsorted(owners[order], np.arange(len(self._links) + 1))
        for part in range(len(self._links)):
            places = order[ends[part] : ends[part + 1]]
            for first, last in pieces(num_bytes[places]):
                yield part, places[first:last]

    def _array(self, part: int, answer: bytes, dtype: Any, count: int) -> NDArray[Any]:
        if len(answer) != np.dtype(dtype).itemsize * count:
            raise GraphServerError(
                f"part {part} at {self._links[part].address} must answer {count:,} values of {np.dtype(dtype)}, got "
                f"{len(answer):,} bytes; does it run this version of a3gnn?"
            )
        return np.frombuffer(answer, dtype=dtype)


def read_column(
    link: PartLink, key: Key, name: str, rows: int, dtype: np.dtype[Any], shape: tuple[int, ...] = ()
) -> NDArray[Any]:
    """Returns the column `name` of one part: `rows` rows of `dtype` and `shape`.

    Raises:
        GraphServerError: The server refuses, can't be reached, or returns another number of bytes.
    """
    row_bytes = int(dtype.itemsize * np.prod(shape, dtype=np.int64))
    step = max(1, ASKED_BYTES // max(1, row_bytes))
    requests = (column_request(key, name, first, min(first + step, rows)) for first in range(0, rows, step))
    asked, answers = deque(link.ask("Column", request) for request in islice(requests, _COLUMN_REQUESTS)), []
    while asked:
        answers.append(asked.popleft().wait())
        asked.extend(link.ask("Column", request) for request in islice(requests, 1))
    found = b"".join(answers)
    if len(found) != rows * row_bytes:
        raise GraphServerError(
            f"{link.name} at {link.address} must answer {rows:,} rows of {name}, got {len(found):,} bytes; does it run "
            "this version of a3gnn?"
        )
    return np.frombuffer(found, dtype=dtype).reshape(rows, *shape)


def pieces(num_bytes: NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows of up to `ASKED_BYTES` together, or a single larger row; at most `MAX_IDS` rows each."""
    return row_spans(np.concatenate(([0], np.cumsum(num_bytes))), ASKED_BYTES, MAX_IDS)


def _close(links: Sequence[PartLink]) -> None:
    for link in links:
        link.close()
