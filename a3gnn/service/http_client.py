"""Requests to a server, with the standard library alone: what it refuses becomes the error that a local call raises."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from a3gnn.errors import A3GNNError, GraphError, InfeasibleError, StoreError, UsageError
from a3gnn.service.problems import MEDIA_TYPE
from a3gnn.storage.atomic import replacing
from a3gnn.units import format_size

#: Bytes that are read at once.
_PIECE = 1 << 20


class ServerAwayError(A3GNNError):
    """The server does not answer: it was not started, is being restarted, or can't be reached from here."""


class AbsentError(A3GNNError):
    """The server has no such thing, or not yet."""


class HttpClient:
    """Sends requests, each over a connection of its own.

    Args:
        url: Where the server is, such as http://127.0.0.1:8642.
        token: What it wants requests to carry, if anything.
        timeout_s: Seconds in which it must answer, or send something more.

    Raises:
        UsageError: The URL is none of a server.
    """

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is none, or half an IPv6 address
            known = False
        if not known:
            raise UsageError(f"a server's URL is such as http://127.0.0.1:8642, got {url!r}")
        self._parts, self._timeout_s = parts, timeout_s
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def json(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Returns what the server answers, as JSON types; None where it answers with nothing."""
        text = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        content = self.content(method, path, text, headers, **query)
        return json.loads(content) if content else None

    def content(self, method: str, path: str, body: Any = None, headers: Any = None, **query: Any) -> bytes:
        """Returns the bytes that the server answers; `body` may be text, bytes or an open file, which is streamed."""
        with self._opened(method, path, body, headers or {}, query) as response, self._awaited():
            return response.read()

    def upload(self, path: str, file: Path, **query: Any) -> Any:
        """Returns what the server answers to the content of `file`, as JSON types."""
        with file.open("rb") as opened:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
            return json.loads(self.content("POST", path, opened, headers, **query))

    def download(self, path: str, place: Path, most: int) -> None:
        """Writes what the server answers to the file `place`, whole or not at all.

        Raises:
            AbsentError: There is nothing.
            A3GNNError: It has more than `most` bytes.
            OSError: It can't be written, such as when the disk is full.
        """

        def read() -> bytes:
            with self._awaited():
                piece = response.read(_PIECE)
                if not piece and response.length:  # which read() notices, and read(amount) does not
                    raise http.client.IncompleteRead(piece, response.length)
                return piece

        with self._opened("GET", path, None, {}, {}) as response, replacing(place) as draft, draft.open("wb") as file:
            got = 0
            while piece := read():
                got += len(piece)
                if got > most:
                    raise A3GNNError(
                        f"what {self._where} sends for {path} may have {format_size(most)}, and has more; is it an "
                        "a3gnn server?"
                    )
                file.write(piece)

    def lines(self, path: str, last: int) -> Iterator[str]:
        """Yields the lines of an event stream from the event after `last` on; none where no more come."""
        with self._opened("GET", path, None, {"Last-Event-ID": str(last)}, {}) as response:
            while line := self._line(response):
                yield line.decode().rstrip("\n")

    def _line(self, response: http.client.HTTPResponse) -> bytes:
        with self._awaited():
            return response.readline()

    @contextmanager
    def _opened(
        self, method: str, path: str, body: Any, headers: Any, query: Any
    ) -> Iterator[http.client.HTTPResponse]:
        """Yields an answer that is no refusal, to be read within `_awaited`."""
        asked = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
        target = f"{self._parts.path.rstrip('/')}{path}{'?' if asked else ''}{asked}"
        with closing(self._connection()) as connection:
            with self._awaited():
                connection.request(method, target, body, {**self._headers, **headers})
                response = connection.getresponse()
            with response:
                if response.status >= 400:
                    raise self._refusal(response)
                yield response

    @contextmanager
    def _awaited(self) -> Iterator[None]:
        """Has what goes wrong between here and the server meanwhile raised as a `ServerAwayError`."""
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            raise ServerAwayError(
                f"the server at {self._where} does not answer ({error or type(error).__name__}); a3gnn serve starts "
                "one, and its first line says where it is"
            ) from error

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _refusal(self, response: http.client.HTTPResponse) -> A3GNNError:
        with self._awaited():
            content = response.read()
        if response.headers.get_content_type() != MEDIA_TYPE:
            return A3GNNError(f"{self._where} answered {response.status} {response.reason}; is it an a3gnn server?")
        return error_of(json.loads(content))

    @property
    def _where(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc}"


#: By the kind of a problem, what is raised for it; anything else is an `A3GNNError`.
_ERRORS: dict[str, type[A3GNNError]] = {
    "usage": UsageError,
    "request": UsageError,
    "graph": GraphError,
    "infeasible": InfeasibleError,
    "store": StoreError,
    "rows": StoreError,
    "not-found": AbsentError,
}


def error_of(problem: dict[str, Any]) -> A3GNNError:
    """Returns the error that a problem, as the server tells it, was made of."""
    kind = str(problem["type"]).rpartition(":")[2]
    made = _ERRORS.get(kind, A3GNNError)
    if made is InfeasibleError:
        return InfeasibleError(problem["detail"], problem.get("smallest_limit_bytes"))
    return made(problem["detail"])
