"""A graph that arrives on another machine: whole, verified, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import GraphError
from a3gnn.graphs.graph import Graph
from a3gnn.profiling.cluster import connection as graph_source
from a3gnn.profiling.cluster.connection import GraphSource, graph_files
from a3gnn.profiling.cluster.node import received
from a3gnn.storage.atomic import replacing
from a3gnn.storage.graph_copies import graph_folder

Fetch = Callable[..., Path]


@pytest.fixture
def fetch(tiny_folder_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Receives the tiny graph in a cache folder of its own, in pieces of 1,000 bytes that may be altered."""
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path))
    monkeypatch.setattr(graph_source, "PIECE_BYTES", 1000)
    folder = tiny_folder_graph.folder
    assert folder is not None

    def run(alter: Callable[[str, bytes], bytes] = lambda name, piece: piece, say: object = None) -> Path:
        def read(name: str, offset: int) -> bytes:
            return alter(name, GraphSource().read(str(folder), name, offset))

        notify = say if callable(say) else lambda line: None
        return received(tiny_folder_graph.fingerprint, graph_files(folder), read, notify)

    return run


def test_what_arrives_is_the_graph(fetch: Fetch, tiny_folder_graph: Graph, tmp_path: Path) -> None:
    lines: list[str] = []
    folder = fetch(say=lines.append)
    assert folder == graph_folder(tmp_path, tiny_folder_graph.fingerprint)
    found = Graph.load(folder)
    for name, array in tiny_folder_graph.arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array)
    assert len(lines) == 1
    assert lines[0].startswith("fetching the graph, ")


def test_it_travels_once(fetch: Fetch) -> None:
    pieces: list[str] = []

    def count(name: str, piece: bytes) -> bytes:
        pieces.append(name)
        return piece

    folder = fetch(count)
    assert pieces
    pieces.clear()
    assert fetch(count) == folder
    assert not pieces
    (folder / "labels.npy").write_bytes(b"damaged")
    assert fetch(count) == folder
    assert pieces  # once more


@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (lambda name, piece: piece[:-1] + bytes([piece[-1] ^ 1]) if name == "x.npy" else piece, "fingerprint"),
        (lambda name, piece: piece[:-1] + b"\x7f" if name == "indices.npy" else piece, "differs from the sent graph"),
        (lambda name, piece: b"" if name == "labels.npy" else piece, "only 0 arrived"),
    ],
    ids=["a bit", "an index", "too little"],
)
def test_what_arrives_otherwise_is_refused(
    fetch: Fetch, tmp_path: Path, alter: Callable[[str, bytes], bytes], why: str
) -> None:
    with pytest.raises(GraphError, match=why):
        fetch(alter)
    assert not list((tmp_path / "graphs").iterdir())


def test_a_disk_without_room_leaves_nothing(fetch: Fetch, tmp_path: Path) -> None:
    def full(name: str, piece: bytes) -> bytes:
        raise OSError(28, "No space left on device")

    with pytest.raises(GraphError, match="No space left on device; nothing was left there"):
        fetch(full)
    assert not list((tmp_path / "graphs").iterdir())


def test_what_an_interrupted_fetch_left_goes_and_what_another_process_writes_stays(
    fetch: Fetch, tiny_folder_graph: Graph, tmp_path: Path
) -> None:
    folder = graph_folder(tmp_path, tiny_folder_graph.fingerprint)
    left, other = (folder.parent / f".{name}.a1b2c3d4" for name in (folder.name, "f" * 16))
    for draft in (left, other):
        (draft / folder.name).mkdir(parents=True)
    with replacing(folder) as written:
        written.mkdir()
        fetch()
        assert written.parent.is_dir()
    assert not left.exists()
    assert other.exists()
