"""Files and paths that are no graph: one error that says what the file is not, whatever the file holds."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.as_graph import as_unlabeled
from a3gnn.graphs.convert import convert
from a3gnn.graphs.graph import Graph
from a3gnn.option_names import as_flags
from tests.commands import a3gnn

Arrays = dict[str, np.ndarray]

_MAGICS = [
    b"",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x80\x02",
    b"\x80\x02}q\x00",
    b"\x93NUMPY\x01\x00",
    b"ustar",
    b"\x1f\x8b",
]


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".pth"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(magic=st.sampled_from(_MAGICS), content=st.one_of(st.binary(max_size=300), st.text().map(str.encode)))
def test_any_bytes_are_no_graph(suffix: str, magic: bytes, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"foreign{suffix}"
    path.write_bytes(magic + content)
    with pytest.raises(GraphError, match=rf"foreign{suffix} is not a readable"):
        Graph.load(path)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "hello", "{}", "# Notes\n\nnothing\n" * 40, "cos\nsystem\n", "I1\n."])
@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_a_text_file_is_no_graph(suffix: str, text: str, tmp_path: Path) -> None:
    (tmp_path / f"text{suffix}").write_text(text)
    with pytest.raises(GraphError, match=rf"text{suffix} is not a readable"):
        Graph.load(tmp_path / f"text{suffix}")


def test_the_command_says_in_a_line_that_a_text_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("hello")
    done = a3gnn("graph", "info", tmp_path / "text.pt")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert done.stderr.startswith("error: ")
    assert "text.pt is not a readable PyG Data" in done.stderr


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), keep=st.floats(0, 1))
def test_a_damaged_archive_is_said_or_is_the_graph(
    place: float, bit: int, keep: float, arrays: Arrays, npz: Callable[..., Path]
) -> None:
    path = npz(arrays, "damaged")
    expected = Graph.load(path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    path.write_bytes(content if keep > 0.5 else content[: int(keep * 2 * len(content))])
    try:
        found = Graph.load(path)
    except GraphError:
        return
    assert found.fingerprint == expected.fingerprint


def test_a_damaged_name_is_not_an_array_left_out(arrays: Arrays, npz: Callable[..., Path]) -> None:
    """Without its masks, a graph would get a split at random."""
    path = npz(arrays, "damaged")
    content = path.read_bytes()
    at = content.rindex(b"train_mask")
    path.write_bytes(content[:at] + b"u" + content[at + 1 :])
    with pytest.raises(GraphError, match="in directory"):
        Graph.load(path)


def test_an_archive_of_something_else_says_what_it_lacks(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.npz", "w") as archive:
        archive.writestr("cat.jpg", b"\xff\xd8")
    with pytest.raises(GraphError, match=r"photos\.npz must hold edge_index, x .*it lacks edge_index"):
        Graph.load(tmp_path / "photos.npz")
    with zipfile.ZipFile(tmp_path / "texts.npz", "w") as archive:
        for name in ("edge_index", "x", "y", "train_mask", "val_mask", "test_mask"):
            archive.writestr(f"{name}.npy", b"words")
    with pytest.raises(GraphError, match=r"texts\.npz"):
        Graph.load(tmp_path / "texts.npz")


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ({"x": None}, r"ring\.npz must hold edge_index, x \(or x_data, .*\), y; it lacks x$"),
        ({"x": None, "x_data": np.ones(3, np.float32)}, r"it lacks x_indices, x_indptr, x_shape$"),
        ({"y": None}, r"it lacks y$"),
        ({"x": None, "Feats": np.ones((6, 1))}, r"it lacks x, but has Feats; .*np\.savez\(FILE, x=Feats, \.\.\.\)$"),
    ],
)
def test_an_array_that_is_missing_is_named(
    without: dict[str, Any], message: str, arrays: Arrays, npz: Callable[..., Path]
) -> None:
    with as_flags(), pytest.raises(GraphError, match=message):
        Graph.load(npz(arrays, **without))


_WRONG_LABELS = [
    (np.array(list("abcdef")), r"y must hold numbers, got <U1 of shape \(6,\); number the classes"),
    (np.array(1), r"y must be 1-dimensional integers .* got int64 of shape \(\); give one per node"),
    (np.zeros((6, 0), np.int64), r"2-dimensional y must have 2 columns or more, .* got shape \(6, 0\)"),
    (np.zeros((6, 2, 2), np.int64), r"y must be 1-dimensional integers .* got int64 of shape \(6, 2, 2\)"),
    (np.zeros(5, np.int64), "y must have one label per node, got 5 for 6; -1 is unlabeled"),
]


@pytest.mark.parametrize(("labels", "message"), _WRONG_LABELS)
@pytest.mark.parametrize("has", ["masks", "ids", "a split"])
def test_labels_of_no_kind_are_said_whatever_splits_the_nodes(
    has: str, labels: np.ndarray, message: str, arrays: Arrays, npz: Callable[..., Path], tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"y": labels}
    if has == "ids":
        changes |= {"train_mask": None, "train_idx": np.array([0, 5])}
    path = npz(arrays, **changes)
    with pytest.raises(GraphError, match=f"^ring: {message}"):
        Graph.load(path, "0.5,0.25,0.25" if has == "a split" else None)
    if has != "a split":
        with pytest.raises(GraphError, match=f"^ring: {message}"):
            convert(str(path), tmp_path / "folder", memory_bytes=4096)


def test_a_graph_to_predict_on_that_can_not_be_read_is_said(
    arrays: Arrays, npz: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "table.csv").write_text("1,2")
    path = npz(arrays, "noy", y=None, edge_index=np.array([[0], [6]]))
    for spec, message in {
        tmp_path / "nowhere.npz": "must be an existing file; did you mean .*noy.npz",
        tmp_path / "folder.npz": "must be an existing file",
        tmp_path / "table.csv": r"must be one of \.npz, \.pt, \.pth to be read without labels",
        Path("x" * 5000 + ".npz"): "can't be opened .*File name too long",
        Path("~nobody-of-that-name/graph.npz"): "home folder in .* is unknown",
        path: "^noy: edge_index must be in",
    }.items():
        with pytest.raises(GraphError, match=message):
            Graph.load_unlabeled(spec)


def test_a_graph_to_predict_on_is_found_in_the_home_folder_and_behind_a_split(
    arrays: Arrays, npz: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = npz(arrays, "noy", y=None)
    for spec in ("~/noy.npz", Path("~/noy.npz"), f"split:0.6,0.2,0.2:0:{path}", "split:0.6,0.2,0.2:0:~/noy.npz"):
        assert as_unlabeled(spec).num_nodes == 6
    assert Graph.load_unlabeled("~/noy.npz").num_nodes == 6


def test_arrays_that_are_not_used_are_said(arrays: Arrays, npz: Callable[..., Path]) -> None:
    path = npz(arrays, edge_weight=np.ones(7), names=np.array(list("abcdef")))
    assert "ignored arrays: names; of edges, edge_attr and edge_weight are read" in Graph.load(path).notes


def test_ids_in_a_file_are_taken_for_masks(arrays: Arrays, npz: Callable[..., Path], tmp_path: Path) -> None:
    masks = [f"{name}_mask" for name in ("train", "val", "test")]
    names = "train_idx", "valid_idx", "test_idx"
    ids = {name: np.flatnonzero(arrays[mask]) for name, mask in zip(names, masks, strict=True)}
    whole, path = Graph.load(npz(arrays)), npz(arrays, "ids", **dict.fromkeys(masks), **ids)
    assert Graph.load(path).fingerprint == whole.fingerprint
    assert convert(str(path), tmp_path / "folder", memory_bytes=4096).fingerprint == whole.fingerprint


def test_an_array_that_claims_more_than_there_is_memory_is_said(arrays: Arrays, npz: Callable[..., Path]) -> None:
    path = npz(arrays, "vast")
    huge = path.with_name("huge.npz")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(huge, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename == "x.npy":
                content = content.replace(b"(6, 3)", b"(6, 999999999999)").replace(b" " * 11 + b"\n", b"\n", 1)
            new.writestr(member.filename, content)
    with pytest.raises(GraphError, match=r"huge\.npz (needs more memory than is available|is not a readable)"):
        Graph.load(huge)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("", UsageError, "a graph is one of"),
        ("nowhere", UsageError, "a graph is one of"),
        ("x" * 5000 + ".npz", GraphError, "can't be opened .*File name too long"),
        ("nul\0byte.npz", GraphError, r"does not exist"),
        ("~nobody-of-that-name/graph.npz", GraphError, "can't be opened .*home"),
        ("/proc/self/mem/graph.npz", GraphError, "does not exist"),
        ("/dev/null", UsageError, "a graph is one of"),
        ("edges.csv", UsageError, r"tables are not read: six lines of docs/start/your_graph\.md"),
        ("graph.bin", UsageError, r"DGL's files are not read: .*from_dgl\(dgl\.load_graphs"),
        ("graph.graphml", UsageError, r"from_networkx\(networkx\.read_graphml\(FILE\)"),
        ("s3://bucket/graph.npz", UsageError, "URLs are not read: download s3://bucket/graph.npz, and give the path"),
        ("https://host/graph.pt", UsageError, "URLs are not read: download https://"),
        ("arrays.mat", UsageError, r"np\.savez\('graph\.npz'"),
        ("ogbn-arxiv", UsageError, "did you mean 'ogb:ogbn-arxiv'"),
        ("ogbn_products", UsageError, "did you mean 'ogb:ogbn-products'"),
        ("Coraa", UsageError, "did you mean 'pyg:Cora'"),
        ("PyG:citeseer", UsageError, "did you mean 'pyg:CiteSeer'"),
        ("pyg:Coraa", UsageError, r"unknown; did you mean 'pyg:Cora'\?"),
        ("pyg:", GraphError, "pyg: is unknown"),
        ("pyg:os", GraphError, "pyg:os is unknown"),
        ("pyg:__name__", GraphError, "pyg:__name__ is unknown"),
    ],
)
def test_a_path_or_name_that_is_none_is_said(spec: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Graph.load(spec)


@pytest.mark.parametrize("name", ["folder", "folder.npz", "folder.pt"])
def test_a_folder_of_something_else_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").write_text("years of work")
    with pytest.raises(GraphError, match=rf"{name} is not a converted graph: meta\.json can't be read"):
        Graph.load(tmp_path / name)
