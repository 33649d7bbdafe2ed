"""`serve`: the server, until it is told to end."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from a3gnn._imports import optional
from a3gnn.checks import ANY_ADDRESS, cannot_listen, shown
from a3gnn.service.settings import ServiceSettings

#: Parameters of glibc's `mallopt` (malloc.h).
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
#: Blocks from so many bytes on go back to the system when they are freed: glibc's first value, which it raises to the
#: largest block that was freed.
_MAPPED_BYTES = 128 << 10


def keep_one_heap() -> None:
    """Has the C library serve all threads from one heap, and large blocks from the system.

    By default glibc has up to 8 heaps per core, each of which keeps what the threads that answer requests have freed in
    it; answers are made in 40 threads and freed in another. Python's own lock has one thread allocate at a time anyway.
    To be called before there are threads. Other C libraries are left as they are.
    """
    with suppress(OSError, AttributeError):  # no such function
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)


#: Seconds that open requests may take to end when the server does. Guess.
_LEAVE_S = 3
#: Connections that may wait to be accepted: uvicorn's own number.
_BACKLOG = 2048


def serve(settings: ServiceSettings, notify: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM; what ran then goes on when the next server starts.

    Raises:
        A3GNNError: The folder or the database can't be used.
        UsageError: The address can't be listened at.
        MissingDependencyError: FastAPI or uvicorn is not installed.
    """
    keep_one_heap()
    uvicorn = optional("uvicorn", "serve", "a3gnn serve")
    optional("fastapi", "serve", "a3gnn serve")
    from a3gnn.service.app import make_app

    listening = _listen(settings)
    app = make_app(settings)

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        """Ends event streams as soon as it is told to end: they would last."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Takes the signal."""
            app.state.service.streams.close()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app.state.guard, log_level="warning", access_log=False, timeout_graceful_shutdown=_LEAVE_S, server_header=False
    )
    host, port = listening.getsockname()[:2]
    notify(
        f"a3gnn serves at http://{shown(host, port)} from {settings.folder}; Ctrl-C ends it, and the next "
        "start goes on with its studies"
    )
    if settings.host in ANY_ADDRESS and not settings.allowed_hosts:
        notify("other machines reach it by a name or an address that --allow-host gives; there is none yet")
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again once it has ended
        Server(config).run(sockets=[listening])


def _listen(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio sends answers at once; else they wait 40 ms for a delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)  # who connects before uvicorn accepts waits
    except OSError as error:
        listening.close()
        raise cannot_listen(settings.host, settings.port, error) from error
    return listening
