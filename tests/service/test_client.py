"""A client whose connection breaks off."""

import contextlib
import socket
import struct
import threading
from pathlib import Path

import pytest

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.service.client import Client, HttpClient, ServerAwayError

EVENTS = 'id: 40\nevent: line\ndata: {"text": "one"}\n\n' + 'id: 80\nevent: line\ndata: {"text": "two"}\n\n'


def test_what_was_read_before_a_reset_is_not_read_again() -> None:
    read, asked = threading.Event(), []

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        asked.append(connection.recv(65536).decode())
        head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{len(EVENTS):x}\r\n{EVENTS}\r\n"
        connection.sendall(head.encode())
        read.wait(30)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # with a reset, as of a machine that went down
        with contextlib.closing(listening.accept()[0]) as connection:
            asked.append(connection.recv(65536).decode())
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    lines: list[str] = []

    def notify(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            threading.Timer(0.2, read.set).start()  # once the client reads on

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        with pytest.raises(A3GNNError, match="answered 404"):
            Client(f"http://127.0.0.1:{listening.getsockname()[1]}").study(1).wait(notify)
        thread.join(30)
    assert lines == ["one", "two"]
    assert ["last-event-id: 0\r\n" in one.lower() for one in asked] == [True, False]
    assert "last-event-id: 80\r\n" in asked[1].lower()


@pytest.mark.parametrize(
    ("length", "below_a_file", "error"), [(2, True, NotADirectoryError), (2, False, None), (9, False, ServerAwayError)]
)
def test_a_disk_that_fails_is_not_taken_for_a_server_that_does(
    length: int, below_a_file: bool, error: type[Exception] | None, tmp_path: Path
) -> None:
    def serve(listening: socket.socket) -> None:
        with contextlib.closing(listening.accept()[0]) as connection:
            connection.recv(65536)
            connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nok".encode())

    (tmp_path / "file").touch()
    place = tmp_path / ("file/folder/x" if below_a_file else "x")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        client = HttpClient(f"http://127.0.0.1:{listening.getsockname()[1]}", None, 30)
        with contextlib.nullcontext() if error is None else pytest.raises(error):
            client.download("/x", place, 100)
        thread.join(30)
    assert place.exists() is (error is None)


@pytest.mark.parametrize(
    "url", ["localhost:8642", "http://", "http://a:b", "http://a:99999", "http://a:0", "http://[::1"]
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="a server's URL must be like"):
        Client(url)
