"""`serve`: runs the server until a signal ends it."""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from a3gnn._imports import optional
from a3gnn.addresses import ANY_ADDRESS, cannot_listen, shown
from a3gnn.service.settings import ServiceSettings

if TYPE_CHECKING:
    from a3gnn.service.service import Service

#: Parameters of glibc's `mallopt` (malloc.h).
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
#: Freed blocks of at least this size go back to the system. This is glibc's first value, which glibc itself raises to
#: the largest block that was freed.
_MAPPED_BYTES = 128 << 10
#: Seconds after which the process ends, however busy its threads are, as docs/howto/service.md promises.
_MOST_END_S = 12.0
#: Most connections that wait to be accepted (uvicorn's default), and that are accepted at once. Each takes a file
#: before it can be refused: a quarter of `a3gnn.service.http.connections._OTHER_FILES`.
_BACKLOG, _ACCEPTED = 2048, 64


def serve(settings: ServiceSettings, notify: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM. Jobs that ran then continue when the next server starts.

    Raises:
        A3GNNError: The folder or the database can't be used.
        UsageError: The server can't listen at the address.
        MissingDependencyError: FastAPI or uvicorn is not installed.
    """
    keep_one_heap()
    uvicorn = optional("uvicorn", "serve", "a3gnn serve")
    optional("fastapi", "serve", "a3gnn serve")
    from a3gnn.service.http.app import make_app
    from a3gnn.service.http.connections import BoundedProtocol, Bounds, most_connections, raise_file_limit
    from a3gnn.service.jobs.worker import LEAVE_S

    class Connection(BoundedProtocol):
        """A connection of this server."""

        bounds = Bounds(most_connections(raise_file_limit()))

    listening = _listen(settings)
    app = make_app(settings)
    app.state.service.streams.most_readers = max(1, Connection.bounds.most // 2)
    if settings.access_log:
        _print_access()
    config = uvicorn.Config(
        app.state.guard,
        http=Connection,
        ws="none",  # a connection of another protocol would have no bounds
        backlog=_ACCEPTED,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=LEAVE_S,
        server_header=False,
        proxy_headers=False,
    )
    host, port = listening.getsockname()[:2]
    notify(
        f"a3gnn serves at http://{shown(host, port)} from {settings.folder}; Ctrl-C stops it, and the next start "
        "continues its studies"
    )
    if settings.host in ANY_ADDRESS and not settings.allowed_hosts:
        notify("other machines need a name or an address of --allow-host to reach the server; none is set")
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after its shutdown
        _server(config, app.state.service, listening, notify).run(sockets=[listening])


def _server(config: Any, service: Service, listening: socket.socket, notify: Callable[[str], None]) -> Any:
    """Returns uvicorn's server, which ends at the signal what would not end by itself."""
    import uvicorn

    from a3gnn.service.http.connections import watch_accepts

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Begins to listen."""
            watch_accepts(notify)
            await super().startup(sockets)
            listening.listen(_BACKLOG)  # asyncio has set it to `_ACCEPTED`

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Ends event streams and processes that examine files, then handles the signal as uvicorn does."""
            last = threading.Timer(_MOST_END_S, os._exit, (1,))
            last.daemon = True
            last.start()
            service.streams.close()
            threading.Thread(target=service.leave, daemon=True).start()  # it takes locks
            super().handle_exit(sig, frame)

    return Server(config)


def _print_access() -> None:
    from a3gnn.service.http.security import ACCESS

    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    ACCESS.addHandler(lines)
    ACCESS.setLevel(logging.INFO)
    ACCESS.propagate = False


def _listen(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio sends answers at once. Otherwise they wait 40 ms for a delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)  # connections wait until uvicorn accepts them
    except OSError as error:
        listening.close()
        raise cannot_listen(settings.host, settings.port, error) from error
    return listening


def keep_one_heap() -> None:
    """Makes glibc use one heap for all threads, and take large blocks from the system. Call it before threads start.

    By default glibc has up to 8 heaps per core, and each keeps the memory that its threads have freed. Answers are made
    in 40 threads and freed in another. One heap costs no time, because Python's lock lets only one thread allocate at a
    time anyway. Other C libraries are left as they are.
    """
    with suppress(OSError, AttributeError):  # no such library or function
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
