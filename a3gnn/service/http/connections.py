"""Bounds on a server's connections: how many are open, and how long they may take to ask and to read."""

from __future__ import annotations

import asyncio
import errno
import json
import resource
from asyncio import AbstractEventLoop, BaseTransport, TimerHandle, Transport
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from a3gnn.service.http.problems import MEDIA_TYPE, busy
from a3gnn.service.http.sessions import network_of

#: The key of a request's scope that holds its connection.
LINK = "a3gnn.link"
#: Seconds that the head of a request may take; Apache's mod_reqtimeout allows 20 at first.
_HEAD_S = 20.0
#: Seconds in which a client must read 48 KiB of an answer that it has not read yet; nginx's send_timeout.
_READ_S = 60.0
#: Bytes that come at once from a client that is not slow, so that its connection waits anew: a full record of TLS (RFC
#: 8446, section 5.1).
_FAST_BYTES = 1 << 14
#: Files that the database, logs, processes and connections being accepted may take.
_OTHER_FILES = 256
#: Most open connections, whatever the limit of files: as many as Linux lets wait (net.core.somaxconn). Each takes some
#: 20 KiB.
_MOST = 4096
_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def raise_file_limit() -> int:
    """Raises this process's limit of open files to the hard limit, and returns the limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def most_connections(files: int) -> int:
    """Returns how many connections may be open if the process may have `files` open files; -1 is no limit."""
    return _MOST if files < 0 else min(_MOST, max(files - _OTHER_FILES, files // 2, 1))


class Bounds:
    """The connections of one server.

    Attributes:
        waiting: The connections that make room for others, by network, the one that has waited longest first.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.waiting: dict[str, dict[BoundedProtocol, None]] = {}

    def put(self, one: BoundedProtocol) -> None:
        """Lets a connection make room for others from now on."""
        self.waiting.setdefault(one.network, {}).setdefault(one, None)

    def take(self, one: BoundedProtocol) -> None:
        """Keeps the place of a connection."""
        own = self.waiting.get(one.network, {})
        own.pop(one, None)
        if not own:
            self.waiting.pop(one.network, None)

    def longest(self, network: str, is_full: bool) -> BoundedProtocol | None:
        """Returns the connection that makes room for a new one from `network`, if one must, or None.

        A network may have half of all connections waiting. If the server is full, the network with the most makes room.
        """
        own = self.waiting.get(network, {})
        if not is_full and 2 * len(own) < self.most:
            return None
        largest = max(self.waiting, key=lambda one: len(self.waiting[one]), default="") if is_full else network
        return next(iter(self.waiting.get(largest, {})), None)


class BoundedProtocol(H11Protocol):
    """A connection that makes room for others while it waits, and ends if its client is too slow.

    A connection waits until its request is complete, or until the request has shown the right to be answered
    (`admit`). If too many connections are open, the one that has waited longest is closed. If none waits, the new one
    gets 503.
    """

    bounds: ClassVar[Bounds]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: TimerHandle | None = None
        self._read: TimerHandle | None = None
        self._admitted: Any = None  # the request that was, if one was

    @property
    def network(self) -> str:
        """The client's network."""
        return network_of((self.client or ("", 0))[0])

    def admit(self) -> None:
        """Keeps the connection's place until its present request is answered."""
        self._admitted = self.cycle
        self._note()

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _keeps_place(self) -> bool:
        return self._has_request and (self._admitted is self.cycle or not self.cycle.more_body)

    def connection_made(self, transport: BaseTransport) -> None:
        """Waits for the first request, in the place of another connection if there are too many."""
        super().connection_made(cast(Transport, transport))
        self._await_head()
        is_full = len(self.connections) > self.bounds.most
        longest = self.bounds.longest(self.network, is_full)
        if longest is not None:
            self.bounds.take(longest)
            longest.transport.abort()
        elif is_full:
            self._refuse()
        self.bounds.put(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self.bounds.take(self)
        self._stop_head()
        self._stop_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes a piece of a request."""
        if not self._has_request and self._head is None:
            self._await_head()
        super().data_received(data)
        if len(data) >= _FAST_BYTES:  # it does not make others wait
            self.bounds.take(self)
        self._note()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Begins to wait until the client reads."""
        super().pause_writing()
        self._read = self._read or self.loop.call_later(_READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Stops waiting: the client has read."""
        super().resume_writing()
        self._stop_read()

    def _await_head(self) -> None:
        self._head = self.loop.call_later(_HEAD_S, self.transport.abort)

    def _stop_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _stop_read(self) -> None:
        if self._read is not None:
            self._read.cancel()
            self._read = None

    def _note(self) -> None:
        """Records whether the connection has a request, and whether it keeps its place."""
        if self.transport.is_closing():
            return
        if self._has_request:
            self._stop_head()
            self.cycle.scope[LINK] = self  # type: ignore[literal-required]
        (self.bounds.take if self._keeps_place else self.bounds.put)(self)

    def _refuse(self) -> None:
        problem = busy(f"the server has {self.bounds.most:,} connections, and all of them have a request")
        body = json.dumps({**problem.to_dict(), "status": 503, "title": "Service Unavailable"}).encode()
        head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        headers = "".join(f"{name}: {value}\r\n" for name, value in (problem.headers or {}).items())
        self.transport.write(f"{head}{headers}connection: close\r\n\r\n".encode() + body)
        self.transport.close()


class AcceptFailures:
    """Handles errors of the event loop. One that asyncio repeats without end is printed once a minute."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify, self._next = notify, 0.0

    def __call__(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handles the error in `context`."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _OUT_OF and "accept" in context.get("message", "")):
            loop.default_exception_handler(context)
        elif loop.time() > self._next:
            self._next = loop.time() + 60
            self._notify(
                f"no connection can be accepted now ({error.strerror}); the limit of open files is "
                f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}; a larger `ulimit -n` allows more"
            )


def watch_accepts(notify: Callable[[str], None]) -> None:
    """Has the running loop print its failures to accept connections at most once a minute."""
    asyncio.get_running_loop().set_exception_handler(AcceptFailures(notify))
