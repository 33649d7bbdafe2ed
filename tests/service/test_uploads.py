"""Uploads that a killed server left, that were sent before, or that are too many."""

import signal
import time
from pathlib import Path

import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.service.client import Client
from tests.service.conftest import write_npz
from tests.service.servers import JSON, Server, problem, serving
from tests.service.test_connections import opened

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_the_next_server_removes_what_a_killed_one_left(tmp_path: Path, npz: Path) -> None:
    with serving(tmp_path / "home", "--at-once", "0") as server:
        kept = Client(server.url).add_graph(npz)
        head = b"POST /graphs/upload?name=big HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50000000\r\n\r\n"
        (link,) = opened(server, 1, head + b"x" * 2_000_000)
        uploads, graphs = tmp_path / "home" / "uploads", tmp_path / "home" / "graphs"
        end = time.monotonic() + 60
        while bytes_in(uploads) < 1_000_000 and time.monotonic() < end:
            time.sleep(0.05)
        assert bytes_in(uploads)
        server.end(signal.SIGKILL)
        link.close()
        (half,) = [graphs / "0123456789abcdef"]  # as a conversion that was cut short leaves it
        half.mkdir()
        (half / "draft").touch()
        (half / "people").mkdir()
        (half / "people" / "x.npy").write_bytes(b"x" * 1000)
        server.start()
        assert server.ask("GET", "/healthz").status == 200
        assert bytes_in(uploads) == 0
        assert not half.exists()
        assert [one["id"] for one in Client(server.url).graphs()] == [kept["id"]]
        assert len(list(graphs.iterdir())) == 1  # the graph that is known stays
        assert not list(graphs.rglob("draft"))


def test_an_upload_under_way_is_not_removed_by_another_server(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--at-once", "0") as server:
        head = b"POST /graphs/upload?name=big HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500000\r\n\r\n"
        (link,) = opened(server, 1, head + b"x" * 100_000)
        uploads, end = tmp_path / "home" / "uploads", time.monotonic() + 60
        while not bytes_in(uploads) and time.monotonic() < end:
            time.sleep(0.05)
        with link, serving(tmp_path / "home", "--at-once", "0"):
            assert len(list(uploads.iterdir())) == 1


def test_the_same_graph_is_kept_once(idle: Server, npz: Path) -> None:
    client, graphs = Client(idle.url), idle.folder / "graphs"
    first = client.add_graph(npz, "first")
    again = client.add_graph(npz, "again")
    assert (again["id"], again["name"]) == (first["id"], "first")
    assert len(list(graphs.iterdir())) == 1
    assert idle.ask("DELETE", f"/graphs/{first['id']}").status == 204
    assert not list(graphs.iterdir())


def test_all_uploads_together_are_bounded(tmp_path: Path) -> None:
    graphs = [write_npz(tmp_path / f"{n}.npz", Graph.load(f"synthetic:nodes=300,degree=8,seed={n}")) for n in range(4)]
    with serving(tmp_path / "home", "--at-once", "0", "--max-uploads", "100KiB") as server:
        found = [server.ask("POST", f"/graphs/upload?name={file.stem}", file.read_bytes()).status for file in graphs]
        assert found[0] == 201
        assert found[-1] == 507
        status, detail = problem(server, "POST", "/graphs/upload", graphs[-1].read_bytes())
        assert (status, "a3gnn serve --max-uploads sets the limit" in detail) == (507, True)
        assert bytes_in(tmp_path / "home" / "graphs") < 200_000
        assert server.ask("DELETE", "/graphs/1").status == 204
        assert server.ask("POST", "/graphs/upload", graphs[0].read_bytes()).status == 201  # there is room again


def test_a_client_that_leaves_is_no_failure_of_the_server(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--at-once", "0") as server:
        for path, kind in (("/graphs/upload", "application/octet-stream"), ("/studies", JSON["Content-Type"]),
                           ("/start", "application/x-www-form-urlencoded"), ("/profiles", "text/plain")):  # fmt: skip
            head = (
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\nxx"
            )
            for link in opened(server, 2, head.encode()):
                time.sleep(0.2)
                link.close()
        end = time.monotonic() + 60
        while 'method="POST",status="499"} 8' not in (text := server.ask("GET", "/metrics").content.decode()):
            assert time.monotonic() < end, text
            time.sleep(0.05)
        assert 'status="500"' not in text
        assert not list((tmp_path / "home" / "uploads").iterdir())
        server.end()
        assert "Traceback" not in server.said
