"""A streamed conversion against loading and saving: the same bytes and errors, less memory, nothing left behind."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.assemble import in_neighbors
from a3gnn.graphs.convert import DEFAULT_MEMORY_BYTES, _write, convert
from a3gnn.graphs.draft import Draft
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.synthetic import write as write_synthetic
from a3gnn.graphs.typed import read_hetero
from a3gnn.notify import ConversionProgress
from a3gnn.storage.claim import claimed_whole
from a3gnn.storage.stamp import STAMP
from a3gnn.units import format_size

Arrays = dict[str, np.ndarray]
SPEC = "synthetic:nodes=400,degree=9,classes=3,features=6"


def content(folder: Path) -> dict[str, bytes]:
    """The graph's files, without the stamp that says when they were verified."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != STAMP}


@st.composite
def nasty_arrays(draw: st.DrawFn) -> Arrays:
    """Self loops, duplicates, foreign integer types and orders, half precision, CSR rows in disorder."""
    nodes = draw(st.integers(3, 30))
    ends = st.integers(0, nodes - 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges = np.array(draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=120)), dtype=draw(_INTEGERS))
    where = rng.permutation(np.concatenate([[0, 1, 2], rng.integers(0, 4, size=nodes - 3)]))
    drawn: Arrays = {
        "edge_index": edges.T if draw(st.booleans()) else np.ascontiguousarray(edges.T),
        "y": np.where(where < 3, rng.integers(0, 3, size=nodes), -1).astype(draw(st.sampled_from(["i1", "i4", "i8"]))),
        "train_mask": where == 0,
        "val_mask": where == 1,
        "test_mask": where == 2,
    }
    kind = draw(st.sampled_from(["f2", "f4"]))
    if draw(st.booleans()):
        return drawn | {"x": np.asarray(rng.standard_normal((nodes, 5)), dtype=kind, order=draw(_ORDERS))}
    lengths = rng.integers(0, 40, size=nodes)
    stored = int(lengths.sum())
    columns = rng.integers(0, draw(st.sampled_from([4, 100])), size=stored)
    return drawn | {
        "x_data": rng.standard_normal(stored).astype(kind),
        "x_indices": columns.astype(draw(st.sampled_from(["i4", "i8"]))),
        "x_indptr": np.concatenate([[0], np.cumsum(lengths)]),
        "x_shape": np.array([nodes, 100]),
    }


_INTEGERS = st.sampled_from(["i1", "u1", "i4", "i8", ">i8", "u8"])
_ORDERS = st.sampled_from(["C", "F"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=nasty_arrays(), memory_bytes=st.integers(1, 2000), compressed=st.booleans(), split=st.booleans())
def test_an_npz_file_gives_the_same_bytes(
    drawn: Arrays, memory_bytes: int, compressed: bool, split: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("npz")
    (np.savez_compressed if compressed else np.savez)(folder / "drawn.npz", **drawn)
    spec = f"{'split:0.4,0.3,0.3:5:' if split else ''}{folder / 'drawn.npz'}"
    with pytest.MonkeyPatch.context() as patch:  # several pieces
        patch.setattr("a3gnn.graphs.convert._EDGES_PER_PIECE", 11)
        patch.setattr("a3gnn.graphs.draft._VALUES_PER_PIECE", 17)
        patch.setattr("a3gnn.storage.npy.PIECE", 4)
        try:
            saved = Graph.load(spec).save(folder / "saved")
        except GraphError as error:  # too few labeled nodes for the split
            with pytest.raises(GraphError, match=re.escape(str(error))):
                convert(spec, folder / "streamed", memory_bytes)
            return
        opened = convert(spec, folder / "streamed", memory_bytes)
    assert content(folder / "streamed") == content(folder / "saved")
    assert (opened.notes, opened.fingerprint) == (saved.notes, saved.fingerprint)
    assert sorted(path.name for path in folder.iterdir()) == ["drawn.npz", "saved", "streamed"]


@pytest.mark.parametrize("memory_bytes", [1, 3000, 1 << 30])
@pytest.mark.parametrize(
    "spec",
    [
        "synthetic:",
        f"split:0.2,0.3,0.4:7:{SPEC}",
        SPEC,
        SPEC + ",density=0.5,seed=3",
        "synthetic:nodes=10,degree=9,homophily=1,classes=2",
    ],
)
def test_a_synthetic_graph_gives_the_same_bytes(spec: str, memory_bytes: int, tmp_path: Path) -> None:
    Graph.load(spec).save(tmp_path / "saved")
    convert(spec, tmp_path / "streamed", memory_bytes)
    assert content(tmp_path / "streamed") == content(tmp_path / "saved")


def test_a_piece_of_edges_and_features_more_gives_the_same_bytes(tmp_path: Path) -> None:
    spec = "synthetic:nodes=290000,degree=29,features=15,classes=4"  # 4.2 million pairs and 4.4 million values
    Graph.load(spec).save(tmp_path / "saved")
    convert(spec, tmp_path / "streamed", 1 << 24)
    saved, streamed = content(tmp_path / "saved"), content(tmp_path / "streamed")
    assert [name for name in saved if saved[name] != streamed.get(name)] == []


def test_a_converted_folder_and_a_known_file_are_copied(
    small_folder_graph: Graph, tmp_path: Path, arrays: Arrays, npz: Callable[..., Path]
) -> None:
    assert small_folder_graph.folder is not None
    convert(small_folder_graph.folder, tmp_path / "copy")
    assert content(tmp_path / "copy") == content(small_folder_graph.folder)
    arrays["x"] += 23  # content of its own, as the cache folder is shared by all tests
    path = npz(arrays, "known")
    cached = Graph.load(path).on_disk()
    assert convert(path, tmp_path / "known").fingerprint == cached.fingerprint


_BROKEN: dict[str, dict[str, object]] = {
    "nan": {"x": np.full((6, 3), np.nan, dtype=np.float32)},
    "edges past the nodes": {"edge_index": np.array([[0], [6]])},
    "negative edges": {"edge_index": np.array([[-1], [0]])},
    "edges beyond int32": {"edge_index": np.array([[0, 2**31 + 3], [2**31 + 2, 5]])},
    "edges that int32 takes for others": {"edge_index": np.array([[2**32, 1], [2**32 + 1, 5]])},
    "edges beyond int64": {"edge_index": np.array([[7], [2**63 + 1]], dtype=np.uint64)},
    "no edges": {"edge_index": np.empty((2, 0), dtype=np.int64)},
    "edges of three rows": {"edge_index": np.zeros((3, 2), dtype=np.int64)},
    "float edges": {"edge_index": np.zeros((2, 2))},
    "no columns": {"x": np.empty((6, 0), dtype=np.float32)},
    "complex features": {"x": np.zeros((6, 3), complex)},
    "doubles beyond floats": {"x": np.full((6, 3), 1e300)},
    "text as labels": {"y": np.array(list("abcdef"))},
    "objects as labels": {"y": np.array(list("abcdef"), object)},
    "pairs as rows": {"edge_index": np.zeros((5, 2), dtype=np.int64)},
    "labels of others": {"y": np.zeros(5, dtype=np.int64)},
    "label past the nodes": {"y": np.array([0, 1, 0, 9, 0, -1])},
    "overlapping masks": {"val_mask": np.arange(6) < 2},
    "empty mask": {"test_mask": np.zeros(6, dtype=bool)},
    "no labels": {"y": None},
    "foreign shape": {"x": None, "x_data": np.ones(1, "f4"), "x_indices": np.zeros(1, "i4"), "x_indptr": np.arange(2)}
    | {"x_shape": np.array([1.0, 2.0])},
}


@pytest.mark.parametrize("change", _BROKEN.values(), ids=_BROKEN)
def test_a_broken_law_is_said_as_in_loading(
    change: dict[str, object], arrays: Arrays, npz: Callable[..., Path], tmp_path: Path
) -> None:
    path = npz(arrays, "broken", **change)
    for packed in (False, True):
        if packed:
            with np.load(path, allow_pickle=True) as archive:
                np.savez_compressed(path, **archive)
        before = path.read_bytes()
        with pytest.raises(GraphError) as loading:
            Graph.load(path)
        with pytest.raises(GraphError) as converting:
            convert(path, tmp_path / "graph")
        assert str(converting.value) == str(loading.value)
        assert list(tmp_path.iterdir()) == [path]
        assert path.read_bytes() == before


@pytest.mark.parametrize("kept", [0, 30, 600, -40])
def test_a_truncated_file_is_said(kept: int, arrays: Arrays, npz: Callable[..., Path], tmp_path: Path) -> None:
    path = npz(arrays, "cut")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(GraphError, match=r"cut\.npz is not a readable \.npz file: truncated or of another format"):
        convert(path, tmp_path / "graph")


def test_python_objects_are_refused(arrays: Arrays, npz: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"y must hold numbers, got Python objects.*pandas\.factorize"):
        convert(npz(arrays, "objects", y=np.array([object()] * 6)), tmp_path / "graph")


def test_a_changed_byte_is_noticed(arrays: Arrays, npz: Callable[..., Path], tmp_path: Path) -> None:
    path = npz(arrays, "rotten")
    data = bytearray(path.read_bytes())
    at = data.index(arrays["x"].tobytes()) + 5
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(GraphError, match=r"rotten\.npz is not a readable \.npz file.*CRC"):
        convert(path, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_graph_stays_and_others_are_refused(tmp_path: Path) -> None:
    convert(SPEC, tmp_path / "graph")
    before = (tmp_path / "graph" / "indices.npy").stat().st_mtime_ns
    convert(SPEC, tmp_path / "graph")
    assert (tmp_path / "graph" / "indices.npy").stat().st_mtime_ns == before
    with pytest.raises(GraphError, match="holds another graph; choose another folder"):
        convert(SPEC + ",seed=1", tmp_path / "graph")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(GraphError, match="must be new or empty, or hold this graph"):
        convert(SPEC, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "thesis.tex"]


def test_a_wrong_argument_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="memory_bytes must be > 0, got 0"):
        convert(SPEC, tmp_path / "graph", 0)
    with pytest.raises(UsageError, match="a parameter of synthetic must be one of"):
        convert("synthetic:nodez=3", tmp_path / "graph")
    with pytest.raises(GraphError, match=r"nowhere\.npz does not exist"):
        convert(tmp_path / "nowhere.npz", tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_larger_than_the_disk_is_refused_before_it_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"TiB are needed, .* are free; nothing was left"):
        convert("synthetic:nodes=2000000000,degree=1000,features=10000", tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spec", ["synthetic:nodes=20000,degree=10,features=4", "ring.npz"])
def test_a_write_that_fails_half_way_leaves_nothing(
    spec: str, arrays: Arrays, npz: Callable[..., Path], tmp_path: Path
) -> None:
    npz(arrays, "ring", x=np.zeros((6, 9000), dtype=np.float32))
    # A limit on file size stands for a full disk: write(2) fails once files pass it.
    code = (
        "import resource, signal, sys\n"
        "from a3gnn.errors import GraphError\nfrom a3gnn.graphs.convert import convert\n"
        "convert('synthetic:nodes=50,degree=4', 'warm')  # numba writes its cache of kernels\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))\n"
        "try: convert(sys.argv[1], 'room/graph')\n"
        "except GraphError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, spec], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "the graph can't be written to room/graph" in done.stdout
    assert "nothing was left there" in done.stdout
    assert list((tmp_path / "room").iterdir()) == []


def shortened(path: Path, short: str, compression: int) -> None:
    """Writes the file at `path` anew; the member `short` ends 8 bytes earlier."""
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, member in content.items():
            archive.writestr(name, member[:-8] if name == f"{short}.npy" else member)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("name", ["edge_index", "x", "y"])
def test_a_member_that_ends_early_is_said(
    name: str, compression: int, arrays: Arrays, npz: Callable[..., Path], tmp_path: Path
) -> None:
    path = npz(arrays, "short")
    shortened(path, name, compression)
    before = path.read_bytes()
    with pytest.raises(GraphError, match=rf"short\.npz is not a readable.*{name}\.npy.* bytes"):
        convert(path, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_a_source_that_changes_meanwhile_is_refused(
    arrays: Arrays, npz: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz(arrays)
    write = Draft.write_features

    def changing(*arguments: Any) -> int:
        npz({**arrays, "y": np.array([1, 1, 0, 1, 0, -1])})
        return write(*arguments)

    monkeypatch.setattr(Draft, "write_features", changing)
    with pytest.raises(GraphError, match=r"ring\.npz changed while it was converted; convert it again"):
        convert(path, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == [path]


def test_a_saved_object_that_changes_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, path, put = HeteroData(), tmp_path / "types.pt", Draft.put
    data["a"].x, data["b"].x = torch.ones(6, 3), torch.ones(4, 2)
    data["a", "to", "b"].edge_index = torch.tensor([[0, 5], [3, 1]])
    torch.save(data, path)

    def changing(*arguments: Any) -> None:
        data["a"].x += 1
        torch.save(data, tmp_path / "other.pt")
        (tmp_path / "other.pt").rename(path)
        put(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Draft, "put", changing)
        with pytest.raises(GraphError, match=r"types\.pt changed while it was converted; convert it again"):
            convert(path, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == [path]
    assert convert(path, tmp_path / "graph")["a"].x[0, 0] == data["a"].x[0, 0]


def test_a_link_in_place_of_the_hidden_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "thesis.tex").write_text("years of work")
    (tmp_path / ".graph.unfinished").symlink_to("elsewhere")
    with pytest.raises(GraphError, match=r"is not a folder of this user; delete it.*\.graph\.unfinished"):
        convert(SPEC, tmp_path / "graph")
    assert (tmp_path / "elsewhere" / "thesis.tex").exists()


def test_the_folder_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3gnn.graphs.folder.violations", lambda graph: pytest.fail("it was verified again"))
    assert (convert(SPEC, tmp_path / "graph").folder / STAMP).is_file()  # type: ignore[union-attr,operator]
    Graph.load(tmp_path / "graph")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("features", "passes", "more"), [(300, 1, 0), (30, 3, 64_000), (1, 15, 40_800)])
def test_scratch_files_of_edges_take_little_more_than_the_result(
    features: int, passes: int, more: int, compressed: bool, tmp_path: Path
) -> None:
    """Scratch files hold twice the bytes of the edges of a pass, and features take their place."""
    nodes, rng = 2000, np.random.default_rng(0)
    arrays = {"edge_index": rng.integers(0, nodes, size=(2, 90_000)), "y": np.arange(nodes) % 5}
    arrays["x"] = rng.standard_normal((nodes, features), dtype=np.float32)
    path, most, said = tmp_path / "graph.npz", 0, []
    (np.savez_compressed if compressed else np.savez)(path, **arrays)

    def watch(*_: object) -> None:
        nonlocal most
        most = max(most, sum(file.stat().st_size for file in tmp_path.rglob("*") if file != path and file.is_file()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("a3gnn.graphs.draft._VALUES_PER_PIECE", 1 << 14)
        patch.setattr("a3gnn.graphs.convert._EDGES_PER_PIECE", 1 << 12)
        patch.setattr(ConversionProgress, "__call__", watch)
        convert(path, tmp_path / "graph", 1 << 16, said.append)
    result = sum(file.stat().st_size for file in (tmp_path / "graph").iterdir())
    unpacked = 8 * nodes if compressed else 0  # labels
    assert most <= 1.1 * result + unpacked
    assert len(said) == 1
    more += unpacked
    assert f"of disk, and {format_size(more)} more while it is written" in said[0]
    assert passes == 1 or f", and reads the edges {passes} times" in said[0]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("skew", ["none", "power law", "hub", "equal edges"])
def test_edges_of_few_nodes_take_no_more_disk_than_is_told(
    skew: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, edges, rng, most = 2000, 90_000, np.random.default_rng(seed), 0
    ends = rng.integers(0, nodes, (2, edges))
    if skew == "power law":
        ends = (nodes * rng.random((2, edges)) ** rng.uniform(2, 12)).astype(np.int64)
    elif skew == "hub":
        ends[1, rng.random(edges) < 0.5] = rng.integers(nodes)
    elif skew == "equal edges":
        ends[:, rng.random(edges) < 0.5] = rng.integers(0, nodes, (2, 1))
    arrays = {"edge_index": ends, "y": np.arange(nodes) % 5, "x": np.ones((nodes, 1), dtype=np.float32)}
    np.savez(tmp_path / "graph.npz", **arrays)
    step, tell, told = ConversionProgress.__call__, Draft.tell, []

    def watch(self: ConversionProgress, *given: Any) -> None:
        nonlocal most
        files = [*(tmp_path / ".graph.unfinished").rglob("*.npy"), *tmp_path.rglob("edges-*")]
        most = max(most, sum(file.stat().st_size - 128 * (file.suffix == ".npy") for file in files))  # without headers
        step(self, *given)

    def note(self: Draft, *given: int) -> None:
        told.append(given)
        tell(self, *given)

    monkeypatch.setattr(ConversionProgress, "__call__", watch)
    monkeypatch.setattr(Draft, "tell", note)
    monkeypatch.setattr("a3gnn.graphs.convert._EDGES_PER_PIECE", 1 << 12)
    graph = convert(tmp_path / "graph.npz", tmp_path / "graph", 1 << 16)
    ((result, needed, _, passes),) = told
    assert passes == 15
    assert needed <= 1.1 * result
    assert most <= needed
    indptr, indices, _ = in_neighbors(ends.astype(np.int32), nodes)
    np.testing.assert_array_equal(graph.indptr, indptr)
    np.testing.assert_array_equal(graph.indices, indices)


#: Kills of a conversion.
KILLS = pytest.mark.parametrize("kills", [5, pytest.param(25, marks=pytest.mark.weekly)])


@pytest.mark.slow
@KILLS
@pytest.mark.parametrize(
    "source", ["synthetic:nodes=300,degree=9,classes=3,features=6", "stored", "compressed", "csr", "hub"]
)
def test_killed_conversions_are_continued(source: str, kills: int, tmp_path: Path) -> None:
    if ":" not in source:
        rng, nodes = np.random.default_rng(3), 500
        arrays = {"edge_index": rng.integers(0, nodes, size=(2, 9000)), "y": np.arange(nodes) % 3}
        arrays["edge_weight"] = rng.random(9000)
        if source == "csr":
            matrix = scipy.sparse.random_array((nodes, 40), density=0.3, format="csr", random_state=rng)
            arrays |= {f"x_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
            arrays["x_shape"] = np.array(matrix.shape)
        else:
            arrays["x"] = rng.standard_normal((nodes, 1 if source == "hub" else 30))
            arrays["edge_index"][1, : 5000 if source == "hub" else 0] = 77  # more than a pass over the edges takes
        (np.savez_compressed if source == "compressed" else np.savez)(tmp_path / "graph.npz", **arrays)
        source = str(tmp_path / "graph.npz")
    kill_often(source, tmp_path / "room", kills)


@pytest.mark.slow
@KILLS
@pytest.mark.parametrize("kind", ["stored", "compressed", "pt"])
def test_killed_conversions_of_types_are_continued(kind: str, kills: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    edges = np.stack([rng.integers(0, 500, 6000), rng.integers(0, 80, 6000)]).astype(np.int32)
    arrays = {"node_types": np.array(["a", "b"]), "num_nodes": np.array([500, 80]), "edge_types": np.array(["a__r__b"])}
    arrays |= {"edge_index__a__r__b": edges, "edge_weight__a__r__b": rng.random(6000, dtype=np.float32)}
    arrays |= {"x__a": rng.standard_normal((500, 30)), "y__a": np.arange(500) % 3}
    matrix = scipy.sparse.random_array((80, 40), density=0.3, format="csr", rng=rng)
    arrays |= {f"x_{part}__b": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    arrays["x_shape__b"] = np.array(matrix.shape)
    (np.savez_compressed if kind == "compressed" else np.savez)(tmp_path / "graph.npz", **arrays)
    if kind == "pt":
        torch.save(read_hetero(tmp_path / "graph.npz"), tmp_path / "graph.pt")
    kill_often(str(tmp_path / f"graph.{'pt' if kind == 'pt' else 'npz'}"), tmp_path / "room", kills)


def kill_often(source: str, room: Path, kills: int) -> None:
    script = Path(__file__).with_name("killed_conversions.py")
    room.mkdir()
    arguments = [sys.executable, str(script), source, str(room / "graph"), "--kills", str(kills)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == kills
    assert found["continued"] > kills / 6


def test_a_conversion_of_types_tells_what_it_takes(tmp_path: Path) -> None:
    arrays = {"node_types": np.array(["a"]), "num_nodes": np.array([1000]), "edge_types": np.array(["a__r__a"])}
    arrays |= {"edge_index__a__r__a": np.zeros((2, 4000), dtype=np.int32), "x__a": np.ones((1000, 8), dtype=np.float32)}
    for name, save, more in (("stored", np.savez, "0 B"), ("compressed", np.savez_compressed, "31.2 KiB")):
        save(tmp_path / f"{name}.npz", **arrays)
        said: list[str] = []
        convert(tmp_path / f"{name}.npz", tmp_path / name, say=said.append)
        assert f"takes up to 93.8 KiB of disk, and {more} more while it is written" in said[0]
        assert said[0].count(f"{more}") == 1


@pytest.mark.parametrize(
    "x", [np.ones((1000, 8), order="F"), np.ones((1000, 8), dtype=">f8")], ids=["columns", "bytes"]
)
def test_compressed_arrays_in_another_order_are_written_twice(x: np.ndarray, tmp_path: Path) -> None:
    arrays = {"node_types": np.array(["a"]), "num_nodes": np.array([1000]), "edge_types": np.array(["a__r__a"])}
    arrays |= {"edge_index__a__r__a": np.zeros((2, 4000), dtype=np.int64), "x__a": x}
    np.savez_compressed(tmp_path / "graph.npz", **arrays)
    said: list[str] = []
    convert(tmp_path / "graph.npz", tmp_path / "graph", say=said.append)
    assert "of disk, and 62.5 KiB more while it is written" in said[0]


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    room = tmp_path / "room"
    arguments = ["graph", "convert", "synthetic:nodes=500000,degree=30,features=64", str(room / "graph")]
    run = subprocess.Popen([sys.executable, "-m", "a3gnn", *arguments], stderr=subprocess.PIPE)
    while run.poll() is None and not list(room.glob(".graph.*/*/edges-*")):
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert list(room.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("source", ["synthetic", "npz"])
def test_memory_stays_far_below_the_graph(source: str, tmp_path: Path) -> None:
    nodes, features = 100_000, 512  # 195 MiB
    spec = f"synthetic:nodes={nodes},degree=2,features={features}"
    if source == "npz":
        where = np.arange(nodes) % 3
        spec = str(tmp_path / "wide.npz")
        masks = {f"{name}_mask": where == i for i, name in enumerate(("train", "val", "test"))}
        edge_index, y = np.stack([np.arange(nodes), np.roll(np.arange(nodes), 1)]), np.zeros(nodes, dtype=np.int64)
        np.savez(spec, x=np.ones((nodes, features), dtype=np.float32), edge_index=edge_index, y=y, **masks)
    # The high-water mark of anonymous memory counts no pages of files, which the system takes back when it wants.
    code = (
        "import re, sys, threading; from a3gnn.graphs.convert import convert\n"
        "def anonymous(): return int(re.search(r'RssAnon:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "convert('synthetic:nodes=50,degree=4', sys.argv[2] + '-warm'); before = peak = anonymous()\n"
        "ended = threading.Event()\n"
        "def watch():\n"
        "    global peak\n"
        "    while not ended.wait(0.005): peak = max(peak, anonymous())\n"
        "watcher = threading.Thread(target=watch); watcher.start()\n"
        "convert(sys.argv[1], sys.argv[2], 1 << 24); ended.set(); watcher.join(); print(peak - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, spec, str(tmp_path / "graph")], capture_output=True, text=True, check=True
    )
    size = (tmp_path / "graph" / "x.npy").stat().st_size
    assert size > 190 * 2**20
    assert int(done.stdout) * 1024 < size / 2
    shutil.rmtree(tmp_path / "graph")  # pytest keeps the folders of its last runs


def test_a_folder_that_another_process_converts_into_is_refused(tmp_path: Path) -> None:
    with claimed_whole(tmp_path / "graph"), pytest.raises(UsageError, match="one run at a time may write"):
        convert(SPEC, tmp_path / "graph")


def test_a_graph_that_another_process_saved_meanwhile_is_not_taken_for_this_one(tmp_path: Path) -> None:
    target = tmp_path / "graph"

    def write(draft: Draft) -> None:
        write_synthetic(SPEC.partition(":")[2], draft)
        Graph.load(SPEC + ",seed=1").save(target)

    with pytest.raises(GraphError, match="holds another graph; choose another folder"):
        _write(write, target, None, DEFAULT_MEMORY_BYTES, ConversionProgress(None))
    assert Graph.load(target).fingerprint == Graph.load(SPEC + ",seed=1").fingerprint
