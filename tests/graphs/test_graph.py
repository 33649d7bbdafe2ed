from __future__ import annotations

import dataclasses
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs import npz as npz_module
from a3gnn.graphs.graph import Graph
from a3gnn.storage.cache import cache_root

Arrays = dict[str, np.ndarray]


def assert_same(a: Graph, b: Graph) -> None:
    left, right = a.arrays(), b.arrays()
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)
    assert a.num_classes == b.num_classes
    assert a.fingerprint == b.fingerprint
    assert a.characteristics() == b.characteristics()


@st.composite
def drawn_arrays(draw: st.DrawFn) -> Arrays:
    """Any legal graph of up to 30 nodes, with self loops and duplicates."""
    nodes = draw(st.integers(4, 30))
    ends = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    where = rng.permutation(np.concatenate([[0, 1, 2], rng.integers(0, 4, size=nodes - 3)]))
    x = (rng.standard_normal((nodes, 5)) * (rng.random((nodes, 5)) < 0.5)).astype(draw(st.sampled_from(["f2", "f4"])))
    drawn: Arrays = {
        "edge_index": np.array(edges).T,
        "y": np.where(where < 3, rng.integers(0, 3, size=nodes), -1),
        "train_mask": where == 0,
        "val_mask": where == 1,
        "test_mask": where == 2,
    }
    if draw(st.booleans()):
        return drawn | {"x": x}
    csr = scipy.sparse.csr_array(x.astype(np.float32))
    parts = {"x_data": csr.data.astype(x.dtype), "x_indices": csr.indices, "x_indptr": csr.indptr.astype(np.int64)}
    return drawn | parts | {"x_shape": np.array(csr.shape)}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=drawn_arrays())
def test_npz_graph_folder_graph(
    drawn: Arrays, npz: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    graph = Graph.load(npz(drawn))
    opened = graph.save(tmp_path_factory.mktemp("graph") / "folder")
    assert_same(graph, opened)
    assert opened.notes == graph.notes
    for v in range(graph.num_nodes):
        sources = drawn["edge_index"][0][drawn["edge_index"][1] == v]
        row = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
        np.testing.assert_array_equal(row, np.unique(sources))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=drawn_arrays())
def test_pyg_and_npz_give_the_same_graph(drawn: Arrays, npz: Callable[..., Path]) -> None:
    expected = Graph.load(npz(drawn))
    tensors = {name: torch.from_numpy(array) for name, array in drawn.items() if not name.startswith("x_")}
    if "x_data" in drawn:
        indices = drawn["x_indices"].astype(np.int64)
        parts = [torch.from_numpy(part) for part in (drawn["x_indptr"], indices, drawn["x_data"])]
        tensors["x"] = torch.sparse_csr_tensor(*parts, size=tuple(drawn["x_shape"].tolist()), check_invariants=True)
    assert_same(expected, Graph.from_pyg(Data(**tensors), name="ring"))


def test_edges_point_to_the_node_whose_in_neighbors_they_are(arrays: Arrays, npz: Callable[..., Path]) -> None:
    graph = Graph.load(npz(arrays))
    assert graph.indices[graph.indptr[3] : graph.indptr[4]].tolist() == [0, 2]
    assert graph.num_edges == 7


def test_types_are_as_promised(tiny_graph: Graph, sparse_graph: Graph, small_folder_graph: Graph) -> None:
    for graph in (tiny_graph, sparse_graph, small_folder_graph):
        assert (graph.indptr.dtype, graph.indices.dtype, graph.labels.dtype) == (np.int64, np.int32, np.int64)
        for ids in (graph.train_ids, graph.val_ids, graph.test_ids):
            assert ids.dtype == np.int32
            assert (np.diff(ids) > 0).all()


def test_a_folder_is_mapped_and_torch_takes_it_without_a_warning(small_folder_graph: Graph) -> None:
    array = small_folder_graph.features.arrays()["x"]
    assert isinstance(array.base, np.memmap)
    assert torch.from_numpy(array).shape == array.shape


def test_writing_to_a_mapped_array_leaves_the_file_as_it_was(tiny_graph: Graph, tmp_path: Path) -> None:
    opened = tiny_graph.save(tmp_path / "graph")
    opened.labels[0] = 99
    assert_same(tiny_graph, Graph.load(tmp_path / "graph"))


def test_the_fingerprint_sees_content_and_not_the_name(arrays: Arrays, npz: Callable[..., Path]) -> None:
    one = Graph.load(npz(arrays, "one"))
    assert Graph.load(npz(arrays, "two")).fingerprint == one.fingerprint
    for name in ("x", "y", "edge_index"):
        changed = arrays[name].copy()
        changed.flat[0] = 1
        assert Graph.load(npz(arrays, "three", **{name: changed})).fingerprint != one.fingerprint


def test_on_disk_converts_once_and_the_file_is_found_again(arrays: Arrays, npz: Callable[..., Path]) -> None:
    arrays["x"] += 7  # content of its own, as the cache folder is shared by all tests
    path = npz(arrays, "mine")
    graph = Graph.load(path)
    assert graph.folder is None
    opened = graph.on_disk()
    assert opened.on_disk() is opened
    again = Graph.load(path)
    assert again.folder == opened.folder
    assert_same(graph, again)
    other = Graph.load(npz(arrays, "other"))
    other.on_disk()
    assert Graph.load(path.with_name("other.npz")).name == "other"
    assert Graph.load(path.with_name("other.npz")).characteristics().name == "other"


def test_a_changed_file_is_read_again(arrays: Arrays, npz: Callable[..., Path]) -> None:
    path = npz(arrays, "changing")
    Graph.load(path).on_disk()
    stat = path.stat()
    npz(arrays, "changing", y=np.array([1, 0, 0, 1, 0, -1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert Graph.load(path).labels[0] == 1


def test_a_file_replaced_by_one_of_equal_size_and_time_is_read_again(arrays: Arrays, npz: Callable[..., Path]) -> None:
    path = npz(arrays, "replaced", x=arrays["x"] + 13)
    Graph.load(path).on_disk()
    stat = path.stat()
    os.replace(npz(arrays, "new", x=arrays["x"] + 14), path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert Graph.load(path).features.arrays()["x"][0, 0] == 14


def test_a_file_that_is_replaced_while_it_is_read_is_not_taken_for_the_new_one(
    arrays: Arrays, npz: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = npz(arrays, "read", x=arrays["x"] + 15), npz(arrays, "meanwhile", x=arrays["x"] + 16)
    whole = npz_module.needed_arrays

    def replaced_meanwhile(*arguments: Any) -> Any:
        os.replace(other, path)
        return whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(npz_module, "needed_arrays", replaced_meanwhile)
        Graph.load(path).on_disk()
    assert Graph.load(path).features.arrays()["x"][0, 0] == 16


def test_a_damaged_copy_in_the_cache_is_passed_over(arrays: Arrays, npz: Callable[..., Path], tmp_path: Path) -> None:
    arrays["x"] += 11
    path = npz(arrays)
    opened = Graph.load(path).on_disk()
    assert opened.folder is not None
    (opened.folder / "labels.npy").write_bytes(b"")
    read = Graph.load(path)
    assert read.folder is None
    assert read.on_disk().folder == opened.folder
    assert Graph.load(path).folder == opened.folder
    assert_same(Graph.load(path), read)


def test_each_file_keeps_its_notes_and_its_name_though_the_graphs_are_one(
    arrays: Arrays, npz: Callable[..., Path]
) -> None:
    arrays["x"] += 31
    once, twice = npz(arrays, "once"), npz(arrays, "twice", edge_index=np.tile(arrays["edge_index"], 2))
    graphs = [Graph.load(path).on_disk() for path in (once, twice)]
    assert graphs[0].folder == graphs[1].folder
    for graph in (graphs[1], Graph.load(twice)):
        assert graph.name == graph.characteristics().name == "twice"
        assert graph.notes == ("7 of 14 edges were duplicates; they are removed",)
    assert (Graph.load(once).name, Graph.load(once).notes) == ("once", ())


@pytest.mark.parametrize("content", [b"", b"../../etc", b"\xff\xfe", b"0" * 32])
def test_a_damaged_note_on_a_file_is_passed_over(arrays: Arrays, npz: Callable[..., Path], content: bytes) -> None:
    arrays["x"] += 37
    path = npz(arrays, "noted")
    Graph.load(path).on_disk()
    for note in (cache_root() / "sources").iterdir():
        note.write_bytes(content)
    assert Graph.load(path).folder is None


def test_a_note_without_notes_is_still_read(arrays: Arrays, npz: Callable[..., Path]) -> None:
    arrays["x"] += 41
    path = npz(arrays, "old")
    opened = Graph.load(path).on_disk()
    for note in (cache_root() / "sources").iterdir():
        note.write_text(note.read_text().split("\n")[0])
    assert Graph.load(path).folder == opened.folder


def test_the_cache_folder_may_be_chosen(tiny_graph: Graph, tmp_path: Path) -> None:
    opened = tiny_graph.on_disk(tmp_path / "here")
    assert opened.folder == tmp_path / "here" / "graphs" / tiny_graph.fingerprint
    assert opened.derived("parts.npy").is_relative_to(opened.folder)


def test_derived_files_need_a_folder(tiny_graph: Graph) -> None:
    with pytest.raises(GraphError, match=r"use on_disk\(\)"):
        tiny_graph.derived("parts.npy")


@pytest.mark.parametrize("spec", ["cora", "graph.csv", "hyperbolic:nodes=3"])
def test_an_unknown_form_lists_the_forms(spec: str) -> None:
    with pytest.raises(UsageError, match=r"a graph is one of: FILE\.npz; .* got '" + spec):
        Graph.load(spec)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"nowhere\.npz does not exist"):
        Graph.load(tmp_path / "nowhere.npz")


def test_loading_imports_neither_torch_nor_pyg() -> None:
    code = (
        "import sys; from a3gnn.graphs.graph import Graph; Graph.load('synthetic:nodes=50,degree=4'); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("cora", "did you mean 'cora.npz' or 'pyg:Cora'?"),
        ("cora.pt", "did you mean 'cora.npz' or 'pyg:Cora'?"),
        ("corra.npz", "did you mean 'cora.npz'?"),
        ("PUBMED", "did you mean 'pyg:PubMed'?"),
    ],
)
def test_a_name_that_is_no_graph_is_answered_by_what_was_meant(
    spec: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cora.npz", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises((UsageError, GraphError), match=re.escape(meant)):
        Graph.load(spec)
    with pytest.raises(UsageError, match=r"got 'nothing'$"):
        Graph.load("nothing")


_CHANGES: dict[str, Callable[[Graph], dict[str, Any]]] = {
    "fewer ids": lambda graph: {"train_ids": graph.train_ids[:5]},
    "no ids": lambda graph: {"test_ids": graph.test_ids[:0]},
    "another array of the folder": lambda graph: {"val_ids": graph.test_ids, "test_ids": graph.val_ids},
    "more classes": lambda graph: {"num_classes": graph.num_classes + 3},
    "labels in RAM": lambda graph: {"labels": np.maximum(graph.labels - 1, 0)},
}


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
@pytest.mark.parametrize("again", [lambda graph: pickle.loads(pickle.dumps(graph)), deepcopy], ids=["pickle", "copy"])
def test_a_graph_with_a_replaced_array_is_no_longer_that_of_its_folder(
    again: Callable[[Graph], Graph], change: Callable[[Graph], dict[str, Any]], tiny_graph: Graph, tmp_path: Path
) -> None:
    whole = tiny_graph.save(tmp_path / "graph")
    changed = dataclasses.replace(whole, **change(whole))
    found = again(changed)
    for name, array in changed.arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array)
    assert (found.num_classes, found.folder) == (changed.num_classes, None)
    same_arrays = set(change(whole)) == {"num_classes"}
    assert (found.fingerprint == whole.fingerprint) == same_arrays
    assert found.characteristics().num_classes == changed.num_classes
    renamed = again(dataclasses.replace(whole, name="another name"))
    assert (renamed.name, renamed.folder) == ("another name", whole.folder)


def test_a_file_is_not_remembered_as_a_graph_that_was_changed(arrays: Arrays, npz: Callable[..., Path]) -> None:
    path = npz(arrays)
    graph = Graph.load(path)
    dataclasses.replace(graph, train_ids=graph.train_ids[:1]).on_disk()
    assert Graph.load(path).train_ids.tolist() == graph.train_ids.tolist() == [0, 1]


def test_a_copy_in_the_cache_is_used_though_what_it_is_of_can_not_be_noted(
    arrays: Arrays, npz: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "sources").write_text("a file where the folder must be")
    assert Graph.load(npz(arrays)).on_disk(tmp_path / "cache").folder is not None


def test_what_is_split_does_not_depend_on_how_it_was_read(
    arrays: Arrays, npz: Callable[..., Path], tmp_path: Path
) -> None:
    """Nodes of a class that no mask selects are in no part of a split, however the graph is split."""
    node = np.arange(60)
    masks = {f"{name}_mask": node // 10 == place for place, name in enumerate(("train", "val", "test"))}
    labels = np.where(node < 30, node % 2 * 2, np.where(node < 40, 1, 3))
    ring = np.stack([node, (node + 1) % 60])
    path = npz(arrays, edge_index=ring, x=np.ones((60, 2), np.float32), y=labels, **masks)
    loaded, folder = Graph.load(path), Graph.load(path).save(tmp_path / "folder").folder
    assert folder is not None
    found = Graph.load(path, "0.5,0.25,0.25"), loaded.resplit("0.5,0.25,0.25"), Graph.load(folder, "0.5,0.25,0.25")
    for one in found:
        assert sorted([*one.train_ids, *one.val_ids, *one.test_ids]) == list(range(30))
        np.testing.assert_array_equal(one.train_ids, found[0].train_ids)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.int64])
def test_a_split_leaves_out_a_class_for_unknown_of_any_integers(
    dtype: type, arrays: Arrays, npz: Callable[..., Path]
) -> None:
    node = np.arange(30)
    masks = {"train_mask": node < 10, "val_mask": (node >= 10) & (node < 15), "test_mask": (node >= 15) & (node < 20)}
    labels, ring = np.where(node < 20, node % 2, 2).astype(dtype), np.stack([node, (node + 1) % 30])
    path = npz(arrays, edge_index=ring, x=np.ones((30, 2), np.float32), y=labels, **masks)
    graph = Graph.load(path, "0.5,0.25,0.25")
    assert (graph.num_classes, graph.labels[20:].tolist()) == (2, [-1] * 10)
    assert max(*graph.train_ids, *graph.val_ids, *graph.test_ids) < 20


def test_too_few_labeled_nodes_for_a_split_are_counted(arrays: Arrays, npz: Callable[..., Path]) -> None:
    path = npz(arrays)
    words = (
        r"ring: a split must have a train, a validation and a test node, got 4, 1, 0 of 5 labeled nodes split "
        r"90/5/5 at random, seed 0\. Label more nodes, or give larger shares"
    )
    for split in (lambda: Graph.load(path, "0.9,0.05,0.05"), lambda: Graph.load(path).resplit("0.9,0.05,0.05")):
        with pytest.raises(GraphError, match=words):
            split()
