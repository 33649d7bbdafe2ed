"""Graph folders whose files are wrong: refused with the array and the rule, never served and never a crash."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.errors import GraphError
from a3gnn.graphs import soundness
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition, restrict_to_parts
from a3gnn.storage.stamp import STAMP, forget

Change = Callable[[np.ndarray], np.ndarray]


def put(*changes: tuple[int, Any]) -> Change:
    """Writes values at places."""

    def change(array: np.ndarray) -> np.ndarray:
        for place, value in changes:
            array.reshape(-1)[place] = value
        return array

    return change


def rewrite(path: Path, change: Change) -> None:
    np.save(path, change(np.array(np.load(path))))


@pytest.fixture
def dense(tiny_graph: Graph, tmp_path: Path) -> Path:
    tiny_graph.save(tmp_path / "dense")
    return tmp_path / "dense"


@pytest.fixture
def sparse(sparse_graph: Graph, tmp_path: Path) -> Path:
    sparse_graph.save(tmp_path / "sparse")
    return tmp_path / "sparse"


_VALUES: list[tuple[str, Change, str]] = [
    ("indices", put((100, 300)), r"indices must be in \[0, 300\), got 0 to 300"),
    ("indices", put((0, -1)), r"indices must be in \[0, 300\), got -1 to"),
    ("indices", put((100, 2**31 - 1)), r"indices must be in \[0, 300\), got 0 to 2147483647"),
    ("indices", lambda a: a[::-1], "indices must be ascending and distinct in each row, but row 0 is not"),
    ("indptr", put((7, 10**6)), "indptr must not fall, got 1000000 and"),
    ("indptr", put((7, -3)), "indptr must not fall, got .* and -3 at row 6"),
    ("indptr", put((0, 1)), "do not fit each other: indptr must rise from 0 to .*got 1 to"),
    ("indptr", put((-1, 10**6)), "do not fit each other: indptr must rise from 0 to .*got 0 to 1000000"),
    ("labels", put((5, 4)), r"labels must be in \[-1, 4\), got 0 to 4"),
    ("labels", put((5, -2)), r"labels must be in \[-1, 4\), got -2 to 3"),
    ("labels", lambda a: np.full_like(a, -1), "train_ids must be labeled nodes, got 90 with label -1"),
    ("train_ids", put((-1, 300)), r"train_ids must be in \[0, 300\), got .* to 300"),
    ("val_ids", put((0, -5)), r"val_ids must be in \[0, 300\), got -5 to"),
    ("test_ids", lambda a: a[::-1], "test_ids must be ascending and distinct"),
    ("val_ids", lambda a: np.arange(len(a), dtype=np.int32), "val_ids must share no node with the other sets, got"),
    ("x", put((33, np.nan)), "x must be finite, got 1 NaN or infinite values"),
    ("x", put((33, np.inf), (34, -np.inf)), "x must be finite, got 2 NaN"),
    ("indices", lambda a: a.astype(np.int64), "indices.npy must hold <i4 of shape .*, got <i8"),
    ("indices", lambda a: a[:-1], "indices.npy must hold <i4 of shape .*, got <i4 of shape"),
    ("labels", lambda a: a.astype(np.float64), "labels.npy must hold <i8 of shape .*, got <f8"),
    ("x", lambda a: np.asfortranarray(a), "x must be C-contiguous"),
    ("x_data", put((9, np.nan)), "x_data must be finite, got 1 NaN"),
    ("x_indices", put((9, 200)), r"x_indices must be in \[0, 200\), got 0 to 200"),
    ("x_indices", put((9, -1)), r"x_indices must be in \[0, 200\), got -1 to"),
    ("x_indices", lambda a: a[::-1], "x_indices must be ascending and distinct in each row"),
    ("x_indptr", put((3, 10**6)), "x_indptr must not fall, got 1000000 and"),
    ("x_shape", put((1, 5)), "it describes another graph"),
    ("x_shape", put((0, 5)), "x must have one row per node, got 5 for 300 nodes"),
]


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize(("array", "change", "message"), _VALUES)
def test_a_wrong_value_is_named(
    array: str, change: Change, message: str, stamped: bool, dense: Path, sparse: Path
) -> None:
    folder = sparse if array.startswith("x_") else dense
    rewrite(folder / f"{array}.npy", change)
    if not stamped:
        forget(folder)
    with pytest.raises(GraphError, match=rf"{folder.name}.*{message}.*convert the graph again"):
        Graph.load(folder)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=st.data())
def test_any_changed_byte_of_any_array_is_found(drawn: st.DataObject, sparse: Path) -> None:
    copy = sparse.with_name("copy")
    shutil.copytree(sparse, copy, copy_function=shutil.copy2)
    path = drawn.draw(st.sampled_from(sorted(copy.glob("*.npy"))))
    content = bytearray(path.read_bytes())
    content[drawn.draw(st.integers(128, len(content) - 1))] ^= 1 << drawn.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        with pytest.raises(GraphError):
            Graph.load(copy)
    finally:
        shutil.rmtree(copy)


def test_a_folder_is_read_once(dense: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(graph: object) -> None:
        raise AssertionError("the files are read")

    monkeypatch.setattr("a3gnn.graphs.folder.violations", never)
    Graph.load(dense)
    os.utime(dense / "val_ids.npy")
    with pytest.raises(AssertionError, match="the files are read"):
        Graph.load(dense)


def test_a_file_with_its_old_content_and_a_new_time_is_verified_and_stamped_again(dense: Path) -> None:
    before = (dense / STAMP).read_bytes()
    os.utime(dense / "indices.npy")
    Graph.load(dense)
    assert (dense / STAMP).read_bytes() != before


@pytest.mark.parametrize("array", ["indices", "indptr", "labels", "x", "train_ids"])
def test_damage_that_keeps_size_and_time_is_found(array: str, dense: Path) -> None:
    path = dense / f"{array}.npy"
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[-2:] = b"\xff\x7f"
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(GraphError, match="convert the graph again"):
        Graph.load(dense)


def test_legal_values_that_were_not_written_there_are_another_graph(dense: Path) -> None:
    rewrite(dense / "labels.npy", lambda a: (a + 1) % 4)
    with pytest.raises(GraphError, match=r"must hold the graph with fingerprint .*Its files have changed"):
        Graph.load(dense)


@pytest.mark.parametrize("by", [-1, -4096, 1])
def test_a_file_of_another_length_than_its_header_says_is_refused(small_graph: Graph, tmp_path: Path, by: int) -> None:
    small_graph.save(tmp_path / "graph")
    path = tmp_path / "graph" / "x.npy"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + by)
    with pytest.raises(GraphError, match=r"x\.npy is missing or truncated \(it must have 256,128 bytes by its header"):
        Graph.load(tmp_path / "graph")


@pytest.mark.parametrize(
    ("name", "value"), [("num_nodes", 301), ("num_edges", 1), ("num_features", 2), ("num_classes", 9)]
)
def test_characteristics_of_another_graph_are_said(dense: Path, name: str, value: int) -> None:
    meta = json.loads((dense / "meta.json").read_text())
    meta["characteristics"][name] = value
    (dense / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(GraphError, match=r"meta\.json is damaged: it describes another graph"):
        Graph.load(dense)


@pytest.mark.parametrize("value", ["4", -1, None, 4.0])
def test_a_wrong_number_of_classes_is_said(dense: Path, value: object) -> None:
    meta = json.loads((dense / "meta.json").read_text())
    (dense / "meta.json").write_text(json.dumps(meta | {"num_classes": value}))
    with pytest.raises(GraphError, match="num_classes must be an integer >= 0, got"):
        Graph.load(dense)


@pytest.mark.parametrize("stamp", ["", "{}", "[]", '{"version": 1, "files": {}}', '{"version": 0, "files": null}'])
def test_a_foreign_stamp_is_no_stamp(dense: Path, stamp: str) -> None:
    rewrite(dense / "indices.npy", put((0, 999)))
    (dense / STAMP).write_text(stamp)
    with pytest.raises(GraphError, match="indices must be in"):
        Graph.load(dense)


def test_a_folder_that_takes_no_stamp_is_stamped_in_the_cache(
    dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    (dense / STAMP).unlink()
    (dense / STAMP).mkdir()
    (dense / STAMP / "in-the-way").touch()
    Graph.load(dense)
    assert len(list((tmp_path / "cache" / "verified").iterdir())) == 1
    monkeypatch.setattr("a3gnn.graphs.folder.violations", lambda graph: pytest.fail("the files are read"))
    Graph.load(dense)


def test_a_folder_is_verified_each_time_where_no_stamp_can_be_kept(
    dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    (dense / STAMP).unlink()
    (dense / STAMP).mkdir()
    (dense / STAMP / "in-the-way").touch()
    read = []
    check = soundness.violations
    monkeypatch.setattr("a3gnn.graphs.folder.violations", lambda graph: read.append(graph) or check(graph))
    assert Graph.load(dense).num_nodes == Graph.load(dense).num_nodes
    assert len(read) == 2


def test_large_arrays_are_verified_in_pieces(dense: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3gnn.storage.npy.PIECE", 7)
    forget(dense)
    graph = Graph.load(dense)
    for place in range(0, graph.num_edges, 50):
        wrong = graph.indices.copy()
        wrong[place] = 300
        broken = [b.array for b in soundness.row_violations("indptr", graph.indptr, "indices", wrong, 300)]
        assert "indices" in broken
    inner = np.flatnonzero(np.diff(graph.indptr) >= 2)
    for row in inner[::20]:
        wrong = graph.indices.copy()
        wrong[graph.indptr[row] + 1] = wrong[graph.indptr[row]]
        (found,) = soundness.row_violations("indptr", graph.indptr, "indices", wrong, 300)
        assert found.rule == f"indices must be ascending and distinct in each row, but row {row} is not"


_CRASH = """
import sys, numpy as np
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition, restrict_to_parts
from a3gnn.sampling.sampler import Sampler
graph = Graph.load(sys.argv[1])
rows = (graph.indptr, graph.indices) if sys.argv[2] == "whole" else restrict_to_parts(graph, partition(graph, 2))
Sampler(Edges(*rows), (5, 5), seed=0).sample(graph.train_ids, 0, 0)
"""


def run(folder: Path, which: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _CRASH, str(folder), which], capture_output=True, text=True)


def test_ids_of_other_memory_end_in_an_error_and_not_in_a_crash(dense: Path) -> None:
    rewrite(dense / "indices.npy", lambda a: np.full_like(a, 2**31 - 1))
    found = run(dense, "whole")
    assert (found.returncode, found.stderr.count("GraphError: ")) == (1, 1), found
    assert "indices must be in [0, 300)" in found.stderr


def test_a_damaged_copy_of_the_rows_within_parts_is_refused(dense: Path) -> None:
    graph = Graph.load(dense)
    restrict_to_parts(graph, partition(graph, 2))
    (folder,) = (dense / "derived").glob("within-*")
    rewrite(folder / "indices.npy", lambda a: np.full_like(a, 2**31 - 1))
    found = run(dense, "within")
    assert found.returncode == 1, found
    assert "indices must be in [0, 300), got 2147483647" in found.stderr
    assert "delete it; a3gnn creates it again" in found.stderr
    shutil.rmtree(folder)
    assert run(dense, "within").returncode == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put((4, 2)), r"parts must be in \[0, 2\), got 0 to 2"),
        (put((4, -1)), r"parts must be in \[0, 2\), got -1 to 1"),
        (lambda a: a[:-1], "must hold 300 values of int32, got int32 of shape"),
        (lambda a: a.astype(np.int64), "must hold 300 values of int32, got int64"),
    ],
)
def test_damaged_parts_are_refused(dense: Path, change: Change, message: str) -> None:
    graph = Graph.load(dense)
    partition(graph, 2, partitioner="random")
    kept = dense / "derived" / "parts-2-seed-0-random.npy"
    rewrite(kept, change)
    with pytest.raises(GraphError, match=rf"random\.npy .*{message}.*delete it; a3gnn creates it again"):
        partition(graph, 2, partitioner="random")


@pytest.mark.parametrize("size", [0, 60, 1000])
def test_truncated_parts_are_refused(dense: Path, size: int) -> None:
    graph = Graph.load(dense)
    partition(graph, 2, partitioner="random")
    os.truncate(dense / "derived" / "parts-2-seed-0-random.npy", size)
    with pytest.raises(GraphError, match=r"missing or truncated .*delete it; a3gnn creates it again"):
        partition(graph, 2, partitioner="random")


@pytest.mark.parametrize("name", ["indptr", "indices"])
def test_rows_within_parts_that_are_truncated_are_refused(dense: Path, name: str) -> None:
    graph = Graph.load(dense)
    parts = partition(graph, 2, partitioner="random")
    restrict_to_parts(graph, parts)
    (folder,) = (dense / "derived").glob("within-*")
    os.truncate(folder / f"{name}.npy", (folder / f"{name}.npy").stat().st_size - 4)
    with pytest.raises(GraphError, match=rf"{name}\.npy is missing or truncated"):
        restrict_to_parts(graph, parts)
