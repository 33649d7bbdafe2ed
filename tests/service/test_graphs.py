"""Graphs that are registered or uploaded: looked at on arrival, within bounds."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import GraphError
from a3gnn.service.client import Client
from a3gnn.service.graphs.graph_process import check_npz
from tests.service.servers import GRAPH, JSON, Server, problem


def test_a_graph_is_registered_once(idle: Server) -> None:
    graph = idle.ask("POST", "/graphs", {"dataset": GRAPH}, JSON).json["id"]
    again = idle.ask("POST", "/graphs", {"dataset": GRAPH}, JSON)
    assert again.status == 201
    assert again.json["id"] == graph
    assert again.headers["location"] == f"/graphs/{graph}"
    shown = idle.ask("GET", f"/graphs/{graph}").json
    assert shown["about"]["num_nodes"] == 300
    assert "spec" not in shown
    assert graph in [one["id"] for one in idle.ask("GET", "/graphs").json["graphs"]]


def test_a_file_below_the_data_root_and_its_upload_are_the_same_graph(idle: Server, npz: Path) -> None:
    named = idle.ask("POST", "/graphs", {"dataset": "people.npz"}, JSON).json
    sent = Client(idle.url).add_graph(npz, "sent")
    assert named["fingerprint"] == sent["fingerprint"]
    assert (named["origin"], sent["origin"], sent["name"]) == ("path", "upload", "sent")
    assert not list((idle.folder / "uploads").iterdir())
    assert len(list((idle.folder / "graphs").iterdir())) == 1
    assert idle.ask("DELETE", f"/graphs/{sent['id']}").status == 204
    assert not list((idle.folder / "graphs").iterdir())
    assert problem(idle, "GET", f"/graphs/{sent['id']}") == (
        404,
        f"graph {sent['id']} does not exist; GET /graphs lists the graphs",
    )


def test_folders_may_have_any_names(npz: Path, tmp_path: Path) -> None:
    cafe = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        (cafe / "data").mkdir(parents=True)
    except (OSError, UnicodeError):
        pytest.skip("the file system takes no such name")
    (cafe / "data" / "people.npz").write_bytes(npz.read_bytes())
    server = Server(cafe / "home", "--data-root", str(cafe / "data"))
    try:
        named = server.ask("POST", "/graphs", {"dataset": "people.npz"}, JSON)
        assert named.status == 201, named.content
        assert server.ask("POST", "/graphs", {"dataset": "people.npz"}, JSON).json["id"] == named.json["id"]
        sent = Client(server.url).add_graph(npz, "sent")
        assert sent["fingerprint"] == named.json["fingerprint"]
        status, detail = problem(server, "POST", "/graphs", {"dataset": "gone.npz"}, JSON)
        assert (status, "'gone.npz' does not exist" in detail) == (422, True)
        assert server.ask("DELETE", f"/graphs/{sent['id']}").status == 204
        assert not list((cafe / "home" / "graphs").iterdir())
    finally:
        server.end()


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ("../secret.npz", "'../secret.npz' does not exist below the data root"),
        ("way-out/secret.npz", "'way-out/secret.npz' does not exist below the data root"),
        ("/etc/passwd", "'/etc/passwd' does not exist below the data root"),
        ("nowhere.npz", "'nowhere.npz' does not exist below the data root"),
        ("saved.pt", "other files may be pickles"),
        ("pyg:Cora", "does not open pyg: data sets"),
        ("ogb:ogbn-arxiv", "does not open ogb: data sets"),
        ("split:0.6,0.2,0.2:0:saved.npz", "the server does not split graphs"),
        ("synthetic:nodes=1001", "must have at most 1,000 nodes here"),
        ("synthetic:nodes=900,features=400", "must have at most 1,048,576 bytes of features here"),
        ("synthetic:node=1", "did you mean 'nodes'"),
    ],
)
def test_what_a_request_may_not_name_is_refused(idle: Server, dataset: str, words: str) -> None:
    status, detail = problem(idle, "POST", "/graphs", {"dataset": dataset}, JSON)
    assert status == 422
    assert words in detail


def upload(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


EDGES, FEATURES, CLASSES = np.zeros((2, 4), np.int64), np.zeros((3, 2), np.float32), np.zeros(3, np.int64)
MASKS = {f"{name}_mask": np.array([name == one for one in "abc"]) for name in ("train", "val", "test")}


def twice(features: np.ndarray) -> bytes:
    """A file with x, which numpy reads, before x.npy, which is small."""
    large, small = io.BytesIO(), io.BytesIO()
    np.save(large, features)
    np.save(small, FEATURES)
    file = io.BytesIO(upload(edge_index=EDGES, y=CLASSES, **MASKS))
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", large.getvalue())
        archive.writestr("x.npy", small.getvalue())
    return file.getvalue()


def test_a_file_may_have_the_arrays_of_hundreds_of_relations(tmp_path: Path) -> None:
    few, many = tmp_path / "few.npz", tmp_path / "many.npz"
    with zipfile.ZipFile(few, "w") as archive:
        header = io.BytesIO()
        np.save(header, np.empty(0))
        for place in range(237 * 7 + 10):
            archive.writestr(f"array_{place}.npy", header.getvalue())
    check_npz(few, None, 10, 10)
    many.write_bytes(few.read_bytes())
    with zipfile.ZipFile(many, "a") as archive:
        for place in range(500):
            archive.writestr(f"more_{place}.npy", header.getvalue())
    with pytest.raises(GraphError, match="must have at most 2048 arrays, got 2169"):
        check_npz(many, None, 10, 10)


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"not a zip", 422, "not a readable .npz"),
        (b"x" * (1 << 20) + b"x", 413, "must have at most 1,048,576 bytes (1.00 MiB)"),
        (
            upload(edge_index=EDGES, x=np.zeros((500_000, 2), np.float32), y=CLASSES),
            422,
            "must have at most 1,048,576 bytes here, got 4,000,088",
        ),
        (upload(edge_index=EDGES, x=np.array([{}, []], dtype=object), y=CLASSES), 422, "contains Python objects"),
        (
            upload(edge_index=EDGES, x=FEATURES, y=np.zeros(1001, np.int64)),
            422,
            "must have at most 1,000 nodes here, got 1,001",
        ),
        (upload(edge_index=EDGES + 7, x=FEATURES, y=CLASSES, **MASKS), 422, "edge_index"),
        (upload(edge_index=EDGES, x=FEATURES), 422, "it lacks y"),
        (twice(np.zeros((500_000, 2), np.float32)), 422, "must have each array once, got x 2 times"),
    ],
    ids=["foreign", "long", "bomb", "pickle", "nodes", "invalid", "incomplete", "twice"],
)
def test_a_bad_upload_is_refused_and_leaves_nothing(idle: Server, content: bytes, status: int, words: str) -> None:
    before = len(list((idle.folder / "graphs").iterdir()))
    found, detail = problem(idle, "POST", "/graphs/upload?name=bad", content)
    assert found == status
    assert words in detail
    assert str(idle.folder) not in detail
    assert not list((idle.folder / "uploads").iterdir())
    assert len(list((idle.folder / "graphs").iterdir())) == before
