"""HEAD, entity tags and compression."""

import gzip
import http.client
import socket
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from a3gnn.service.client import RemoteStudy
from tests.service.servers import Server

ZIPPED = {"Accept-Encoding": "gzip, br"}


@pytest.mark.parametrize(
    "path", ["/healthz", "/studies", "/", "/docs", "/openapi.json", "/static/study.css", "/nowhere"]
)
def test_head_is_answered_as_get_without_the_body(idle: Server, path: str) -> None:
    head, got = idle.ask("HEAD", path), idle.ask("GET", path)
    assert head.content == b""
    assert head.status == got.status
    for name in ("content-type", "content-length", "etag"):
        assert head.headers.get(name) == got.headers.get(name)


def test_head_of_a_stream_ends_and_its_connection_goes_on(idle: Server, kept: RemoteStudy) -> None:
    kept.resume()  # it waits, so its events do not end
    try:
        with closing(http.client.HTTPConnection(urlsplit(idle.url).netloc, timeout=10)) as connection:
            for path in (f"/studies/{kept.id}/events", "/healthz"):
                connection.request("HEAD", path)
                answer = connection.getresponse()
                assert (answer.status, answer.read()) == (200, b"")
        readers = [
            line
            for line in idle.ask("GET", "/metrics").content.splitlines()
            if line.startswith(b"a3gnn_event_readers ")
        ]
        assert readers == [b"a3gnn_event_readers 0"]
    finally:
        kept.stop()


def test_allow_names_every_method(idle: Server, kept: RemoteStudy) -> None:
    for path, methods in (
        (f"/studies/{kept.id}", "DELETE, GET, HEAD"),
        ("/studies", "GET, HEAD, POST"),
        ("/start", "GET, HEAD, POST"),
        (f"/studies/{kept.id}/stop", "POST"),
    ):
        answer = idle.ask("PUT", path)
        assert (answer.status, answer.headers["allow"]) == (405, methods)


def test_texts_are_compressed_if_the_client_takes_it(idle: Server, kept: RemoteStudy) -> None:
    for path in (f"/studies/{kept.id}/views", f"/studies/{kept.id}/page", "/static/study.js", "/openapi.json",
                 f"/studies/{kept.id}/files/probes.jsonl"):  # fmt: skip
        plain, zipped = idle.ask("GET", path), idle.ask("GET", path, headers=ZIPPED)
        assert zipped.headers["content-encoding"] == "gzip"
        assert gzip.decompress(zipped.content) == plain.content
        assert len(zipped.content) < len(plain.content) / 2
        assert "content-encoding" not in plain.headers
        assert plain.headers["vary"] == zipped.headers["vary"] == "Accept-Encoding"
    assert (
        "content-encoding" not in idle.ask("GET", "/static/study.js", headers={"Accept-Encoding": "gzip;q=0"}).headers
    )
    assert "content-encoding" not in idle.ask("GET", "/healthz", headers=ZIPPED).headers  # too small


def test_events_are_not_compressed(idle: Server, kept: RemoteStudy) -> None:
    answer = idle.ask("GET", f"/studies/{kept.id}/events", headers=ZIPPED)
    assert "content-encoding" not in answer.headers
    assert b"event: status" in answer.content


def test_what_is_unchanged_is_not_sent_again(idle: Server, kept: RemoteStudy) -> None:
    for path in ("/static/study.js", f"/studies/{kept.id}/views"):
        tag = idle.ask("GET", path).headers["etag"]
        again = idle.ask("GET", path, headers={"If-None-Match": f'"other", {tag}', **ZIPPED})
        assert (again.status, again.content, again.headers["etag"]) == (304, b"", tag)
        assert idle.ask("GET", path, headers={"If-None-Match": '"other"'}).status == 200
    assert "etag" not in idle.ask("GET", "/nowhere").headers


def test_two_requests_of_one_connection_are_answered_in_turn(idle: Server) -> None:
    place = urlsplit(idle.url)
    with socket.create_connection((place.hostname, place.port), timeout=10) as link:
        one = f"GET /healthz HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
        link.sendall(one + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        found = b""
        while piece := link.recv(10_000):
            found += piece
    assert found.count(b"HTTP/1.1 200 OK") == 2
