"""`serve_part`: a graph server that runs until a signal ends it; `PartAnswers` are its answers about its part."""

from __future__ import annotations

import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn._imports import optional
from a3gnn.addresses import cannot_listen, check_address, shown
from a3gnn.errors import ConfigError
from a3gnn.graphs.halves import as_halves
from a3gnn.parts.part import Part, open_part
from a3gnn.parts.part_kernels import draw_rows
from a3gnn.parts.protocol import (
    MAX_ANSWER_BYTES,
    MAX_REQUEST_BYTES,
    METHODS,
    PROTOCOL_VERSION,
    SERVICE,
    TOKEN_HEADER,
    TOKEN_VARIABLE,
    Key,
    RefusedError,
    read_column,
    read_draw,
    read_key,
    read_rows,
)
from a3gnn.storage.compiled import readonly
from a3gnn.threads.affinity import available_cores
from a3gnn.units import count

#: Requests in the queue or in work at once; further ones are refused and may be repeated. Guess.
_MOST_AT_ONCE = 256
#: Bytes of unsent answers at once, of which gRPC has a second copy; further answers are refused the same way. Guess.
_MOST_BYTES = 1 << 28
#: Seconds that answers in flight may take after the server's end. Guess.
_LEAVE_S = 2.0


def serve_part(folder: Path, host: str, port: int, token: str | None, notify: Callable[[str], None]) -> None:
    """Serves the part in `folder` until SIGINT or SIGTERM.

    Args:
        folder: A folder written by `make_parts`.
        host: The address to listen on.
        port: 0 takes a free one.
        token: Token that requests must carry; None requires none, and is allowed on loopback only.
        notify: Takes lines for the user; the first contains the address.

    Raises:
        UsageError: The address is not loopback and there is no token, or the server can't listen on it.
        GraphError: The folder contains no part, or a damaged one.
        MissingDependencyError: gRPC is not installed.
    """
    check_address(host, token, TOKEN_VARIABLE)
    part = open_part(folder)
    with serving(part, host, port, token) as (server, address):
        about = part.about
        notify(
            f"part {part.number} of {about['num_parts']} of {about['graph']['name']}, {count(part.num_nodes, 'node')}, "
            f"is served at {address}; Ctrl-C stops it"
        )
        with suppress(KeyboardInterrupt):
            server.wait_for_termination()


@contextmanager
def serving(part: Part, host: str, port: int, token: str | None) -> Iterator[tuple[Any, str]]:
    """Answers requests about `part` until the context ends; yields gRPC's server and the address.

    Args:
        part: The part.
        host: The address to listen on, already checked by `check_address`.
        port: 0 takes a free one.
        token: Token that requests must carry; None requires none.

    Raises:
        UsageError: The server can't listen on the address.
        MissingDependencyError: gRPC is not installed.
    """
    grpc = optional("grpc", "parts", "a3gnn parts serve")
    answers = PartAnswers(part)
    answers.warm_up()
    options = [
        ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
        ("grpc.max_send_message_length", -1),  # bounded by PartAnswers
        ("grpc.so_reuseport", 0),  # else a second server would share the port
    ]
    workers = ThreadPoolExecutor(max(2, 2 * available_cores()))
    server = grpc.server(workers, options=options, maximum_concurrent_rpcs=_MOST_AT_ONCE)
    budget = AnswerBytes(_MOST_BYTES)
    handlers = {name: _handler(grpc, answers.methods[name], token, budget) for name in METHODS}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = _listen(server, host, port)
    server.start()
    try:
        yield server, shown(host, port)
    finally:
        server.stop(_LEAVE_S).wait()
        workers.shutdown()


class AnswerBytes:
    """Limits the bytes of unsent answers, which stay in memory if a client doesn't read them. Thread-safe.

    Args:
        most: Largest sum of unsent bytes; a single answer may have more.
    """

    def __init__(self, most: int) -> None:
        self._most, self._taken, self._lock = most, 0, threading.Lock()

    def take(self, num_bytes: int) -> bool:
        """Counts an answer and returns True, or returns False if there is no room for it."""
        with self._lock:
            if self._taken and self._taken + num_bytes > self._most:
                return False
            self._taken += num_bytes
            return True

    def give_back(self, num_bytes: int) -> None:
        """Records that an answer was sent or given up."""
        with self._lock:
            self._taken -= num_bytes


def _handler(grpc: ModuleType, answer: Callable[[bytes], bytes], token: str | None, budget: AnswerBytes) -> Any:
    expected = None if token is None else f"Bearer {token}".encode()

    def answered(request: bytes, context: Any) -> bytes:
        if expected is not None:
            given = dict(context.invocation_metadata()).get(TOKEN_HEADER, "")
            if not hmac.compare_digest(str(given).encode("utf-8", "replace"), expected):
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "a request must carry the server's token")
        try:
            found = answer(request)
        except RefusedError as refusal:
            context.abort(grpc.StatusCode[refusal.code], str(refusal))
            raise  # never reached, because abort raises
        if not budget.take(len(found)):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the server sends too many answers already")
        if not context.add_callback(partial(budget.give_back, len(found))):  # the client has gone
            budget.give_back(len(found))
        return found

    return grpc.unary_unary_rpc_method_handler(answered)


def _listen(server: Any, host: str, port: int) -> int:
    """Makes `server` listen; returns the port."""
    try:
        if port:  # gRPC's error has no reason, so a socket tries the address first
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind((host, port))
        return int(server.add_insecure_port(shown(host, port)))
    except (OSError, RuntimeError) as error:
        raise cannot_listen(host, port, error) from error


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
        self.methods = {"About": self.about, "Column": self.column, "Neighbors": self.neighbors, "Rows": self.rows}

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

    def neighbors(self, request: bytes) -> bytes:
        """Returns sampled in-neighbors.

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
                f"the request is for part {key.part} of the cut {key.cut.hex()}, but this server has part "
                f"{self._key.part} of {self._key.cut.hex()}",
            )
        return rest

    def _rows_of(self, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Returns the rows of `ids` in the part."""
        rows = np.searchsorted(self._nodes, ids)
        if (self._nodes[np.minimum(rows, len(self._nodes) - 1)] != ids).any():
            raise RefusedError("INVALID_ARGUMENT", f"ids must be nodes of part {self._key.part}, but some are not")
        return rows


def _bound(num_bytes: int, rows: int) -> None:
    if num_bytes > MAX_ANSWER_BYTES and rows > 1:
        raise RefusedError(
            "INVALID_ARGUMENT",
            f"an answer must have at most {MAX_ANSWER_BYTES:,} bytes, got a request for {num_bytes:,}; ask for fewer "
            "rows",
        )
