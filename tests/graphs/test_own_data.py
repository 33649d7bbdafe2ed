"""Data as people have it: other types, names, splits and files. Each is read with a note, or refused with a remedy."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch
import torch_geometric
from numpy.typing import NDArray
from scipy import sparse
from torch._weights_only_unpickler import Unpickler
from torch_geometric.data import Batch, Data, TemporalData
from torch_geometric.transforms import ToUndirected

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.assemble import reversed_share
from a3gnn.graphs.convert import convert
from a3gnn.graphs.graph import Graph

Arrays = dict[str, NDArray[Any]]
Npz = Callable[..., Path]

_IDS = {"train": np.array([0, 1]), "val": np.array([2, 3]), "test": np.array([4])}
_NO_MASKS: dict[str, Any] = dict.fromkeys(("train_mask", "val_mask", "test_mask"))
_CSR = sparse.random_array((6, 4), density=0.5, format="csr", random_state=0)
_PARTS = {"x": None, "x_data": _CSR.data, "x_indices": _CSR.indices, "x_indptr": _CSR.indptr, "x_shape": _CSR.shape}


def read(path: Path, tmp_path: Path) -> Graph:
    """The graph of an .npz file, which is the same by streaming, with the same notes."""
    graph = Graph.load(path)
    streamed = convert(path, tmp_path / f"{path.stem}-streamed", memory_bytes=4096)
    assert (streamed.fingerprint, streamed.notes) == (graph.fingerprint, graph.notes)
    return graph


def data_of(arrays: Arrays, **changes: Any) -> Data:
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return Data(**{name: value for name, value in {**tensors, **changes}.items() if value is not None})


@pytest.mark.parametrize("dtype", ["f8", ">f8", ">f4", "i8", "u1", "?", "f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_features_of_any_real_type_are_those_of_a_data(
    dtype: str, order: str, arrays: Arrays, npz: Npz, tmp_path: Path
) -> None:
    x = np.asarray(arrays["x"].astype(dtype), order=order)  # type: ignore[call-overload]
    graph = read(npz(arrays, x=x), tmp_path)
    native = x.astype(np.dtype(dtype).newbyteorder("="))
    theirs = Graph.from_pyg(data_of(arrays, x=torch.from_numpy(np.ascontiguousarray(native))))
    assert graph.fingerprint == theirs.fingerprint
    assert set(graph.notes) == set(theirs.notes)
    assert any("are stored as float32" in note for note in graph.notes) == (np.dtype(dtype).name != "float32")


@pytest.mark.parametrize("dtype", ["f8", "i4", "f4"])
def test_sparse_features_of_any_real_type(dtype: str, arrays: Arrays, npz: Npz, tmp_path: Path) -> None:
    values = np.arange(1, len(_CSR.data) + 1).astype(dtype)
    graph = read(npz(arrays, **{**_PARTS, "x_data": values}), tmp_path)
    np.testing.assert_array_equal(graph.features.arrays()["x_data"], values.astype(np.float32))
    assert graph.features.arrays()["x_data"].dtype == np.float32
    assert any("are stored as float32" in note for note in graph.notes) == (dtype != "f4")


def test_a_file_without_masks_is_split_as_a_data_is(arrays: Arrays, npz: Npz, tmp_path: Path) -> None:
    for without in (_NO_MASKS, {"val_mask": None, "test_mask": None}):
        graph = read(npz(arrays, f"without{len(without)}", **without), tmp_path)
        theirs = Graph.from_pyg(data_of(arrays, **without))
        assert graph.fingerprint == theirs.fingerprint
        assert graph.notes == theirs.notes != ()


@pytest.mark.parametrize(
    "names", [("train", "val", "test"), ("train", "valid", "test"), ("idx_train", "idx_val", "idx_test")]
)
@pytest.mark.parametrize("kind", ["ids", "bools", "ones"])
def test_splits_under_other_names_are_used_with_a_note(
    names: tuple[str, ...], kind: str, arrays: Arrays, npz: Npz, tmp_path: Path
) -> None:
    masks = {name: np.isin(np.arange(6), ids) for name, ids in _IDS.items()}
    parts = {"ids": list(_IDS.values()), "bools": list(masks.values())}
    parts["ones"] = [mask.astype("u1") for mask in masks.values()]
    given = dict(zip(names, parts[kind], strict=True))
    whole = Graph.load(npz(arrays))
    graph = read(npz(arrays, "named", **_NO_MASKS, **given), tmp_path)
    assert graph.fingerprint == whole.fingerprint
    assert f"{names[1]} is used as val_mask" in graph.notes
    tensors = {name: torch.from_numpy(part) for name, part in given.items()}
    assert Graph.from_pyg(data_of(arrays, **_NO_MASKS, **tensors)).fingerprint == whole.fingerprint


@pytest.mark.parametrize("as_tensor", [True, False])
def test_a_mapping_as_ogb_gives_it_is_the_split(as_tensor: bool, arrays: Arrays, npz: Npz, tmp_path: Path) -> None:
    split = {"valid" if name == "val" else name: ids for name, ids in _IDS.items()}
    made = {name: torch.from_numpy(ids) for name, ids in split.items()} if as_tensor else split
    graph = Graph.from_pyg(data_of(arrays, **_NO_MASKS, split_idx=made))
    assert graph.fingerprint == Graph.load(npz(arrays)).fingerprint
    assert "split_idx[valid] is used as val_mask" in graph.notes
    ignored = read(npz(arrays, "objects", **_NO_MASKS, split_idx=np.array(split, dtype=object)), tmp_path)
    assert any(note.startswith("split_idx may be a split") and "train_idx" in note for note in ignored.notes)


@pytest.mark.parametrize("split", [[0, 0, 1], [0, 6], [0.5] * 6, [], list("abcdef")], ids=str)
def test_an_array_that_selects_no_nodes_is_no_split(split: list[Any], arrays: Arrays, npz: Npz, tmp_path: Path) -> None:
    graph = read(npz(arrays, **_NO_MASKS, train=np.array(split)), tmp_path)
    assert any(note.startswith("train may be a split, but can't") for note in graph.notes)
    assert any("split 60/20/20 at random" in note for note in graph.notes)


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("dtype", ["i4", ">i8", "u1", "u8"])
def test_labels_of_any_integers_also_in_a_column(
    column: bool, dtype: str, arrays: Arrays, npz: Npz, tmp_path: Path
) -> None:
    y = np.array([0, 1, 0, 1, 0, 0], dtype=dtype)
    graph = read(npz(arrays, y=y[:, None] if column else y), tmp_path)
    assert graph.target == "classes"
    assert graph.labels.tolist() == [0, 1, 0, 1, 0, 0]
    assert graph.notes == ()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 2, 1, 2, 1, -1], "class 0 has no node"),
        ([0, 4, 0, 4, 2, -1], "2 classes below 5 have no node"),
        ([2, 2, 2, 3, 3, 3], "2 classes below 4"),
    ],
)
def test_classes_that_no_node_has_are_said_and_the_remedy_numbers_them(
    labels: list[int], classes: str, arrays: Arrays, npz: Npz, tmp_path: Path
) -> None:
    y = np.array(labels)
    notes = [note for note in read(npz(arrays, y=y), tmp_path).notes if note.startswith(classes)]
    assert len(notes) == 1
    exec(re.search(r"y\[y >= 0\] -?= .*?(?=$| leaves| numbers)", notes[0])[0], {"np": np, "y": y})  # type: ignore[index]
    mended = read(npz(arrays, "mended", y=y), tmp_path)
    assert mended.notes == ()
    assert mended.num_classes == len({one for one in labels if one >= 0})


@pytest.mark.parametrize("unknown", [False, True])
def test_whole_numbers_as_floats_may_be_classes(unknown: bool, arrays: Arrays, npz: Npz, tmp_path: Path) -> None:
    y = arrays["y"].astype(float)
    y[5] = np.nan if unknown else 2
    graph = read(npz(arrays, y=y), tmp_path)
    assert graph.target == "values"
    note = next(note for note in graph.notes if note.startswith("y holds floats"))
    mended = eval(re.search(r"give (.*) or, in torch", note)[1], {"np": np, "y": y})  # type: ignore[index]
    assert read(npz(arrays, "mended", y=mended), tmp_path).target == "classes"
    torch_way = eval(re.search(r"in torch, (.*)$", note)[1], {"y": torch.from_numpy(y)})  # type: ignore[index]
    assert torch_way.tolist() == mended.tolist()
    assert "classes" in note
    fractions = read(npz(arrays, "fractions", y=y + 0.5), tmp_path)
    assert not any("may be classes" in one or "All values are whole" in one for one in fractions.notes)


@pytest.mark.parametrize("marker", [np.nan, -1.0, -1])
def test_labels_known_in_part_are_refused_with_remedies_that_keep_them_unknown(
    marker: float, arrays: Arrays, npz: Npz, tmp_path: Path
) -> None:
    y = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [1, 1], [0, 1]], dtype=type(marker))
    y[0, 1] = y[5] = marker
    path = npz(arrays, y=y)
    with pytest.raises(GraphError, match="got 1 row with unknown labels beside known ones") as refused:
        Graph.load(path)
    assert "fill in 0" not in str(refused.value)
    one = eval(str(refused.value).rpartition("y = ")[2], {"np": np, "y": y})
    first = read(npz(arrays, "one", y=one), tmp_path)
    assert (first.target, first.labels.tolist()) == ("classes", [0, 1, 0, 1, 1, -1])
    y[0] = -1
    rows = read(npz(arrays, "rows", y=y, train_mask=np.arange(6) == 1), tmp_path)
    assert rows.labels.tolist() == [[-1, -1], [1, 1], [0, 0], [1, 0], [1, 1], [-1, -1]]


def _edges(nodes: int, edges: int, seed: int = 0) -> NDArray[np.int64]:
    pairs = np.random.default_rng(seed).integers(0, nodes, (2, edges))
    return np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)


@pytest.mark.parametrize("how", ["up", "down", "either", "with loops"])
def test_undirected_edges_that_are_stored_once_get_a_note(how: str, tmp_path: Path) -> None:
    edges = _edges(200, 900)
    rng = np.random.default_rng(1)
    turned = {"up": edges, "down": edges[::-1], "with loops": np.hstack([edges, [np.arange(200)] * 2])}
    turned["either"] = np.where(rng.random(edges.shape[1]) < 0.5, edges, edges[::-1])
    x, y = rng.normal(size=(200, 3)).astype("f4"), np.arange(200) % 2
    np.savez(tmp_path / "once.npz", edge_index=turned[how], x=x, y=y)
    np.savez(tmp_path / "both.npz", edge_index=np.hstack([turned[how], turned[how][::-1]]), x=x, y=y)
    assert sum("have their reverse" in note for note in read(tmp_path / "once.npz", tmp_path).notes) == 1
    assert not any("have their reverse" in note for note in read(tmp_path / "both.npz", tmp_path).notes)
    data = Data(
        x=torch.from_numpy(x), edge_index=torch.from_numpy(np.ascontiguousarray(turned[how])), y=torch.from_numpy(y)
    )
    assert any("have their reverse" in note for note in Graph.from_pyg(data).notes)


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_reversed_edges_is_that_of_a_count(seed: int, tmp_path: Path) -> None:
    once = _edges(40, 300, seed)
    edges = np.hstack([once, once[::-1, :: seed + 1], [[3, 5], [3, 5]]])
    np.savez(tmp_path / "g.npz", edge_index=edges, x=np.ones((40, 1), "f4"), y=np.arange(40) % 2)
    graph = Graph.load(tmp_path / "g.npz")
    pairs = {(s, t) for s, t in edges.T.tolist() if s != t}
    expected = sum((t, s) in pairs for s, t in pairs) / len(pairs)
    assert reversed_share(graph.indptr, graph.indices) == pytest.approx(expected)


def test_a_text_file_does_not_get_the_advice_to_unpickle(tmp_path: Path) -> None:
    for content in (b"a,b\n1,2\n", b"\x80\x04N.", b""):
        (tmp_path / "table.npz").write_bytes(content)
        with pytest.raises(GraphError, match=r"table\.npz is not a readable \.npz file.*your_graph\.md") as refused:
            Graph.load(tmp_path / "table.npz")
        assert "allow_pickle" not in str(refused.value)
        assert "unsafe" not in str(refused.value)


class Mine(Data):
    """A class of the user's own."""


def _old(arrays: Arrays) -> Data:
    """As a PyG before 2.0 has pickled it: attributes without a store."""
    old = Data.__new__(Data)
    vars(old).update({name: torch.from_numpy(array) for name, array in arrays.items()}, edge_attr=None, pos=None)
    return old


_SAVED: dict[str, tuple[Callable[[Arrays], Any], str]] = {
    "batch": (lambda a: Batch.from_data_list([data_of(a), data_of(a)]), r"Data\.from_dict\(batch\.to_dict\(\)\)"),
    "list": (
        lambda a: [data_of(a), data_of(a)],
        r"several graphs train as one: Data\.from_dict\(Batch\.from_data_list",
    ),
    "tuple": (lambda a: (data_of(a), data_of(a)), "several graphs train as one"),
    "temporal": (
        lambda a: TemporalData(src=torch.arange(3), dst=torch.arange(3), t=torch.arange(3)),
        "only Loader and LinkNeighborLoader take events with times; Data",
    ),
    "dict": (lambda a: data_of(a).to_dict(), r"Data\.from_dict\(\.\.\.\) .* has x, edge_index, y"),
    "processed": (lambda a: (data_of(a).to_dict(), None, Data), r"data set's processed file; .*save dataset\[0\]"),
    "networkx": (lambda a: networkx.path_graph(3), "from_networkx converts it"),
    "subclass": (lambda a: Mine(**data_of(a).to_dict()), r"holds .*Mine, .*torch\.save\(Data\(x="),
    "date": (lambda a: data_of(a, when=datetime.date(2020, 1, 1)), r"holds datetime\.date, .*torch\.save\(Data\(x="),
    "names": (lambda a: data_of(a, x=None, feat=torch.from_numpy(a["x"])), r"lacks x; set data\.x = data\.feat"),
    "text": (lambda a: data_of(a, y=list("abcdef")), r"y must be a tensor, got list; .*pandas\.factorize"),
}


@pytest.mark.parametrize("kind", _SAVED)
def test_what_was_saved_in_place_of_a_data_gets_a_remedy(kind: str, arrays: Arrays, tmp_path: Path) -> None:
    make, remedy = _SAVED[kind]
    torch.save(make(arrays), tmp_path / "saved.pt")
    with pytest.raises(GraphError, match=rf"saved(\.pt|: ).*{remedy}") as refused:
        Graph.load(tmp_path / "saved.pt")
    assert "weights_only" not in str(refused.value)
    if kind in ("list", "tuple", "temporal", "dict", "processed", "networkx"):
        with pytest.raises(GraphError, match=remedy):
            Graph.from_pyg(make(arrays))
        with pytest.raises(UsageError, match=remedy):
            as_graph(make(arrays))


def test_the_remedies_for_several_graphs_work(arrays: Arrays, tmp_path: Path) -> None:
    batch = Batch.from_data_list([data_of(arrays), data_of(arrays)])
    torch.save(Data.from_dict(batch.to_dict()), tmp_path / "joined.pt")
    joined = Graph.load(tmp_path / "joined.pt")
    assert joined.fingerprint == Graph.from_pyg(batch).fingerprint
    assert (joined.num_nodes, joined.num_edges) == (12, 14)


def test_a_data_of_an_older_pyg_is_read(arrays: Arrays, npz: Npz, tmp_path: Path) -> None:
    torch.save(_old(arrays), tmp_path / "old.pt")
    whole = Graph.load(npz(arrays))
    assert Graph.load(tmp_path / "old.pt").fingerprint == Graph.from_pyg(_old(arrays)).fingerprint == whole.fingerprint


def test_a_data_with_its_cache_gets_a_remedy_that_works(arrays: Arrays, tmp_path: Path) -> None:
    both = ToUndirected()(data_of(arrays))
    torch.save(both, tmp_path / "both.pt")
    if hasattr(Unpickler, "_check_set_item_target"):  # torch 2.8 fills any mapping that is allowed
        with pytest.raises(
            GraphError, match=r"holds collections\.defaultdict, .*torch\.save\(Data\.from_dict\(data\.to_dict"
        ):
            Graph.load(tmp_path / "both.pt")
    else:
        assert Graph.load(tmp_path / "both.pt").fingerprint == Graph.from_pyg(both).fingerprint
    torch.save(Data.from_dict(both.to_dict()), tmp_path / "both.pt")
    assert Graph.load(tmp_path / "both.pt").fingerprint == Graph.from_pyg(both).fingerprint


@pytest.mark.parametrize("suffix", ["graphml", "gml", "gexf"])
def test_the_remedy_for_files_of_networkx_works(suffix: str, tmp_path: Path) -> None:
    graph = networkx.path_graph(5)
    networkx.set_node_attributes(graph, {node: {"a": node / 2, "b": 1.0, "y": node % 2} for node in graph})
    file = tmp_path / f"path.{suffix}"
    getattr(networkx, f"write_{suffix}")(graph, file)
    with pytest.raises(UsageError, match="group_node_attrs") as refused:
        Graph.load(file)
    remedy = re.search(r"(torch_geometric\.utils\.from_networkx\(.*?\]\))", str(refused.value))[1]  # type: ignore[index]
    remedy = remedy.replace("FILE", repr(str(file))).replace("[NAME, ...]", "['a', 'b']")
    data = eval(remedy, {"torch_geometric": torch_geometric, "networkx": networkx})
    torch.save(data, tmp_path / "graph.pt")
    read_again = Graph.load(tmp_path / "graph.pt")
    assert (read_again.num_nodes, read_again.num_edges, read_again.num_features) == (5, 8, 2)
    assert read_again.labels.tolist() == [0, 1, 0, 1, 0]


def test_the_recipe_from_csv_makes_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "start" / "your_graph.md").read_text()
    recipe = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "read_csv" in block)
    assert len([line for line in recipe.splitlines() if line and not line.startswith("import")]) == 6
    labels = ["red", "blue", "red", "", "blue", "red", "red", "blue"]
    rows = "".join(f"{10 * node},{label},{node},{node / 2}\n" for node, label in enumerate(labels))
    (tmp_path / "nodes.csv").write_text(f"id,label,age,score\n{rows}")
    (tmp_path / "edges.csv").write_text("source,target\n0,10\n10,20\n70,0\n")
    monkeypatch.chdir(tmp_path)
    exec(recipe, {})
    graph = Graph.load("graph.npz")
    assert graph.labels.tolist() == [0, 1, 0, -1, 1, 0, 0, 1]
    np.testing.assert_array_equal(graph.features.arrays()["x"], [[node, node / 2] for node in range(8)])
    targets = np.repeat(np.arange(8), np.diff(graph.indptr)).tolist()
    undirected = {(0, 1), (1, 2), (7, 0)}
    assert set(zip(graph.indices.tolist(), targets, strict=True)) == undirected | {(t, s) for s, t in undirected}
    assert graph.notes == ("it had no masks; labeled nodes are split 60/20/20 at random, seed 0",)
