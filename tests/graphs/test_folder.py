from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import GraphError
from a3gnn.graphs.graph import Graph


def _change_meta(folder: Path, **changes: object) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | changes))


@pytest.fixture
def folder(tiny_graph: Graph, tmp_path: Path) -> Path:
    tiny_graph.save(tmp_path / "graph")
    return tmp_path / "graph"


def test_the_files_are_plain_npy(folder: Path, tiny_graph: Graph) -> None:
    np.testing.assert_array_equal(np.load(folder / "indices.npy"), tiny_graph.indices)
    assert json.loads((folder / "meta.json").read_text())["format"] == "a3gnn-graph"


def test_saving_again_is_nothing_and_another_graph_is_refused(
    folder: Path, tiny_graph: Graph, sparse_graph: Graph
) -> None:
    before = (folder / "indices.npy").stat().st_mtime_ns
    assert tiny_graph.save(folder).fingerprint == tiny_graph.fingerprint
    assert (folder / "indices.npy").stat().st_mtime_ns == before
    with pytest.raises(GraphError, match="holds another graph; choose another folder"):
        sparse_graph.save(folder)


def test_an_empty_folder_is_taken_and_a_full_one_is_not(tiny_graph: Graph, tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "thesis.tex").write_text("years of work")
    assert tiny_graph.save(empty).folder == empty
    with pytest.raises(GraphError, match="must be new or empty, or hold this graph"):
        tiny_graph.save(full)
    assert [path.name for path in full.iterdir()] == ["thesis.tex"]


def test_a_path_that_is_a_file_is_refused(tiny_graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GraphError, match="must be new or empty, or hold this graph"):
        tiny_graph.save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("size", [0, 50, 300])
def test_a_truncated_array_is_said(folder: Path, size: int) -> None:
    os.truncate(folder / "indices.npy", size)
    with pytest.raises(GraphError, match=r"indices\.npy is missing or truncated .*convert the graph again"):
        Graph.load(folder)


def test_a_missing_array_is_said(folder: Path) -> None:
    (folder / "labels.npy").unlink()
    with pytest.raises(GraphError, match=r"labels\.npy is missing or truncated"):
        Graph.load(folder)


def test_an_array_of_another_graph_is_said(folder: Path) -> None:
    np.save(folder / "labels.npy", np.zeros(7, dtype=np.int64))
    with pytest.raises(GraphError, match=r"labels\.npy must hold <i8 of shape \(300,\).*got <i8 of shape \(7,\)"):
        Graph.load(folder)


def test_arrays_that_do_not_fit_each_other_are_said(folder: Path) -> None:
    indptr = np.load(folder / "indptr.npy")
    indptr[-1] -= 1
    np.save(folder / "indptr.npy", indptr)
    with pytest.raises(GraphError, match="do not fit each other"):
        Graph.load(folder)


def test_another_format_version_is_refused(folder: Path) -> None:
    _change_meta(folder, format_version=99)
    with pytest.raises(GraphError, match=r"format version of .* must be 1, got 99; convert the graph again"):
        Graph.load(folder)


def test_a_foreign_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    _change_meta(folder, format="parquet")
    with pytest.raises(GraphError, match="lacks the format 'a3gnn-graph'"):
        Graph.load(folder)
    with pytest.raises(GraphError, match=r"is not a converted graph: meta\.json can't be read"):
        Graph.load(tmp_path)


@pytest.mark.parametrize(
    "changes", [{"arrays": {}}, {"arrays": None}, {"characteristics": {"name": "x"}}, {"notes": 3}]
)
def test_a_damaged_meta_is_said(folder: Path, changes: dict[str, object]) -> None:
    _change_meta(folder, **changes)
    with pytest.raises(GraphError, match=r"meta\.json is damaged"):
        Graph.load(folder)


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    # A limit on file size stands for a full disk: write(2) fails once files pass it.
    code = (
        "import resource, signal, sys; from a3gnn.graphs.graph import Graph; from a3gnn.errors import GraphError\n"
        "graph = Graph.load('synthetic:nodes=2000,degree=6'); graph.characteristics()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))\n"
        "try: graph.save(sys.argv[1])\n"
        "except GraphError as error: print(error)"
    )
    target = tmp_path / "room" / "graph"
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=True)
    assert f"can't be written to {target}" in done.stdout
    assert "nothing was left there" in done.stdout
    assert list(target.parent.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_said(tiny_graph: Graph, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(GraphError, match="can't be written"):
        tiny_graph.save(tmp_path / "graph")
    tmp_path.chmod(0o700)


def test_a_graph_larger_than_the_disk_is_refused_before_it_is_written(tmp_path: Path) -> None:
    graph = Graph.load("synthetic:nodes=50,degree=4")
    endless = np.broadcast_to(np.float32(0), (50, 1 << 50))  # takes no memory, claims 200 PiB
    object.__setattr__(graph, "known", graph.characteristics())
    object.__setattr__(graph.features, "array", endless)
    with pytest.raises(GraphError, match=r"TiB are needed, .* are free; nothing was left"):
        graph.save(tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []
