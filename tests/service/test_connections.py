"""Connections without end: those that wait, those that are slow, and those that read, under a small limit of files."""

import contextlib
import http.client
import json
import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.service.servers import JSON, Server

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from a3gnn.service.http import connections
from a3gnn.service.http.connections import most_connections

#: Starts a server that may have 320 open files: 160 connections.
FILES = 320
LIMITED = (
    f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); "
    "from a3gnn.cli.main import main; sys.argv[0] = 'a3gnn'; sys.exit(main())"
)


class LimitedServer(Server):
    """A server under a small limit of files, whose log is a file."""

    def start(self) -> None:
        self.log = self.folder.parent / "log"
        program = [sys.executable, "-c", LIMITED, "serve", "--folder", str(self.folder), "--port", self._port]
        self.begin([*program, *self._options], self.log)


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[LimitedServer]:
    server = LimitedServer(tmp_path / "home", "--at-once", "0")
    yield server
    server.process.kill()
    server.process.wait()


def opened(server: Server, count: int, sent: bytes = b"") -> list[socket.socket]:
    place = urlsplit(server.url)
    found = []
    for _ in range(count):
        link = socket.create_connection((place.hostname, place.port), timeout=10)
        link.sendall(sent)
        found.append(link)
    return found


def test_the_bound_leaves_files_for_everything_else() -> None:
    assert most_connections(1024) == 768
    assert most_connections(256) == 128
    assert most_connections(1 << 20) == most_connections(-1) == 4096


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "],
    ids=["idle", "slow"],
)
def test_connections_without_a_request_make_room_for_others(limited: LimitedServer, sent: bytes) -> None:
    with contextlib.ExitStack() as stack:
        for link in opened(limited, FILES + 80, sent):
            stack.callback(link.close)
        for _ in range(3):
            assert limited.ask("GET", "/healthz").status == 200
    assert limited.log.stat().st_size < 10_000


def test_event_readers_leave_connections_to_others(limited: LimitedServer) -> None:
    assert limited.ask("POST", "/graphs", {"dataset": "synthetic:nodes=300,degree=8"}, JSON).status == 201
    study = limited.ask("POST", "/studies", {"graph": 1}, JSON).json["id"]
    links, statuses = [], []
    for _ in range(100):
        link = http.client.HTTPConnection(urlsplit(limited.url).netloc, timeout=20)
        link.request("GET", f"/studies/{study}/events")
        answer = link.getresponse()
        statuses.append(answer.status)
        links.append((link, answer))
    assert statuses.count(200) == 80  # half of the connections
    assert statuses.count(429) == 20
    assert limited.ask("GET", "/healthz").status == 200
    for link, answer in links:
        answer.close()
        link.close()


@pytest.mark.weekly  # it waits for 20 s; test_attacks has the login, which has 5 s
@pytest.mark.slow
def test_a_request_whose_head_or_body_does_not_come_ends(limited: LimitedServer) -> None:
    head = f"POST /graphs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON['Content-Type']}\r\nContent-Length: 99\r\n"
    (without_body,) = opened(limited, 1, f"{head}\r\n{{".encode())
    begun = time.monotonic()
    (without_head,) = opened(limited, 1, b"GET /healthz HTTP/1.1\r\n")
    with without_head:
        without_head.settimeout(300)
        assert without_head.recv(100) == b""
    assert time.monotonic() - begun >= connections._HEAD_S  # later on a busy machine
    with without_body:
        without_body.settimeout(300)
        answer = http.client.HTTPResponse(without_body)
        answer.begin()
        assert answer.status == 408
        assert "bytes per second" in json.loads(answer.read())["detail"]


def test_the_limit_of_files_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        assert connections.raise_file_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
