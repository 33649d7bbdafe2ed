from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Batch, Data, HeteroData

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.as_graph import spec_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split


@pytest.fixture
def data() -> Data:
    """Twelve nodes on a directed ring, without masks."""
    ring = torch.arange(12)
    edge_index = torch.stack([ring, (ring + 1) % 12])
    return Data(x=torch.randn(12, 3, generator=torch.manual_seed(0)), edge_index=edge_index, y=ring % 3)


def _with_masks(data: Data) -> Data:
    for i, name in enumerate(("train_mask", "val_mask", "test_mask")):
        data[name] = torch.arange(12) % 4 == i
    return data


def test_a_saved_data_is_read_back(data: Data, tmp_path: Path) -> None:
    torch.save(_with_masks(data), tmp_path / "ring.pt")
    graph = Graph.load(tmp_path / "ring.pt")
    assert graph.name == "ring"
    assert graph.fingerprint == Graph.from_pyg(data).fingerprint
    assert graph.train_ids.tolist() == [0, 4, 8]
    assert graph.indices.tolist() == [11, *range(11)]  # node v's only in-neighbor is v - 1


def test_a_converted_data_file_opens_from_its_copy(data: Data, tmp_path: Path) -> None:
    torch.save(_with_masks(data), tmp_path / "ring.pt")
    opened = Graph.load(tmp_path / "ring.pt").on_disk()
    assert Graph.load(tmp_path / "ring.pt").folder == opened.folder


@pytest.mark.parametrize("content", [b"", b"not a pickle", b"PK\x03\x04 cut"])
def test_a_foreign_or_truncated_file_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(GraphError, match=r"bad\.pt is not a readable PyG Data"):
        Graph.load(tmp_path / "bad.pt")


class Opener:
    """Runs code when it is unpickled, unless the loader refuses."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("opened-by-a-pickle", "w")


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(Opener(), tmp_path / "evil.pt")
    with pytest.raises(GraphError, match=r"evil\.pt is not a readable PyG Data"):
        Graph.load(tmp_path / "evil.pt")
    assert not (tmp_path / "opened-by-a-pickle").exists()


def test_something_else_that_was_saved_is_said(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, tmp_path / "model.pt")
    with pytest.raises(GraphError, match=r"model\.pt must hold a PyG Data, got dict; Data\.from_dict\(.* has weight$"):
        Graph.load(tmp_path / "model.pt")


def test_without_masks_labeled_nodes_are_split_and_it_is_said(data: Data) -> None:
    data.y[3] = -1
    graph = Graph.from_pyg(data)
    assert "split 60/20/20" in graph.notes[0]
    ids = np.concatenate([graph.train_ids, graph.val_ids, graph.test_ids])
    assert sorted(ids.tolist()) == [v for v in range(12) if v != 3]
    assert (len(graph.train_ids), len(graph.val_ids), len(graph.test_ids)) == (7, 2, 2)
    assert graph.fingerprint == Graph.from_pyg(data).fingerprint


def test_missing_masks_are_filled_from_nodes_in_no_other_mask_and_it_is_said(data: Data) -> None:
    data.train_mask = torch.arange(12) < 4
    graph = Graph.from_pyg(data)
    assert graph.train_ids.tolist() == [0, 1, 2, 3]
    assert sorted([*graph.val_ids, *graph.test_ids]) == list(range(4, 12))
    assert any("it had no val_mask and no test_mask" in note for note in graph.notes)


def test_a_class_for_unknown_is_not_split_nor_judged(data: Data) -> None:
    data.y = torch.tensor([0, 1, 0, 1, 0, 1, 2, 2, 2, 2, 2, 2])
    data.train_mask, data.test_mask = torch.arange(12) < 4, (torch.arange(12) >= 4) & (torch.arange(12) < 6)
    with pytest.raises(GraphError, match=r"this one lacks val_mask, and 0 labeled nodes are in no other mask; split="):
        Graph.from_pyg(data)
    graph = Graph.from_pyg(data, split="0.4,0.3,0.3", split_seed=5)
    assert graph.num_classes == 2
    assert graph.labels[6:].tolist() == [-1] * 6
    assert "class 2 is in no mask; its 6 nodes are unlabeled" in graph.notes


_WRONG_IDS = [torch.arange(12) < 4, torch.tensor([]), torch.tensor([0, 99])]


@pytest.mark.parametrize("ids", _WRONG_IDS, ids=["mask", "empty", "foreign"])
def test_ids_that_are_none_are_said_but_where_a_split_replaces_them(ids: torch.Tensor, data: Data) -> None:
    data.train_idx = ids
    remedy = "number the nodes from 0" if len(ids) == 2 else "Give them as int64, or rename an array .* to train_mask"
    with pytest.raises(GraphError, match=rf"^pyg: train_idx must be .*[;.] {remedy}"):
        Graph.from_pyg(data)
    graph = Graph.from_pyg(data, split="0.5,0.25,0.25")
    assert (len(graph.train_ids), len(graph.val_ids), len(graph.test_ids)) == (6, 3, 3)
    assert any(note.endswith("this replaces its train_idx") for note in graph.notes)


def test_classes_in_no_mask_are_counted_in_good_grammar(data: Data) -> None:
    data.y = torch.tensor([0, 1, 0, 1, 0, 1, 2, 0, 0, 1, 0, 1])
    data.train_mask, data.val_mask = torch.arange(12) < 3, (torch.arange(12) >= 3) & (torch.arange(12) < 5)
    data.test_mask = torch.arange(12) == 5
    assert "class 2 is in no mask; its 1 node is unlabeled" in Graph.from_pyg(data).notes
    few = Data(x=torch.ones(40, 2), edge_index=torch.arange(80).reshape(2, 40) % 40, y=torch.arange(40) % 20)
    few.train_mask, few.val_mask, few.test_mask = (torch.arange(40) == place for place in range(3))
    named = ", ".join(map(str, range(3, 13)))
    assert f"classes {named} and 7 more are in no mask; their 34 nodes are unlabeled" in Graph.from_pyg(few).notes


def test_ids_are_taken_for_masks(data: Data, tmp_path: Path) -> None:
    data.train_idx, data.valid_idx, data.test_idx = torch.arange(4), torch.arange(4, 8), torch.arange(8, 12)
    graph = Graph.from_pyg(data)
    assert [ids.tolist() for ids in (graph.train_ids, graph.val_ids, graph.test_ids)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]
    data.train_mask = torch.arange(12) < 2
    assert "train_idx and train_mask select different nodes; train_mask is used" in Graph.from_pyg(data).notes


@pytest.mark.filterwarnings("ignore:'BAShapes' is deprecated")
@pytest.mark.parametrize("name", ["KarateClub", "BAShapes", "FakeDataset"])
def test_data_sets_without_a_folder_are_the_same_every_time(name: str) -> None:
    assert Graph.load(f"pyg:{name}").fingerprint == Graph.load(f"pyg:{name}").fingerprint


def test_a_split_is_part_of_the_graph_and_of_its_spec(data: Data, tmp_path: Path) -> None:
    torch.save(data, tmp_path / "ring.pt")
    path = str(tmp_path / "ring.pt")
    one, other = (Graph.load(path, "0.5,0.25,0.25", seed).on_disk() for seed in (1, 2))
    assert one.fingerprint != other.fingerprint
    spec = spec_of(path, one, Split.of("0.5,0.25,0.25", 1))
    assert spec == f"split:0.5,0.25,0.25:1:{path}"
    assert Graph.load(spec).fingerprint == one.fingerprint
    with pytest.raises(
        UsageError, match=r"split must be three shares > 0 of train, validation and test nodes, at most 1 together"
    ):
        Graph.load(path, "0.9,0.2,0.2")


@pytest.mark.parametrize("attribute", ["x", "edge_index", "y"])
def test_a_missing_attribute_is_named(data: Data, attribute: str) -> None:
    data[attribute] = None
    with pytest.raises(GraphError, match=f"but it lacks {attribute}"):
        Graph.from_pyg(data)


def test_sparse_coo_features_are_those_of_the_dense_matrix(data: Data) -> None:
    dense = torch.where(data.x > 0, data.x, 0)
    data.x = dense.to_sparse_coo()
    stored = Graph.from_pyg(_with_masks(data)).features.arrays()
    parts = (stored["x_data"], stored["x_indices"], stored["x_indptr"])
    np.testing.assert_array_equal(scipy.sparse.csr_array(parts, shape=(12, 3)).toarray(), dense.numpy())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.arange(12) % 2 == 0, r"got bool; for classes, set data\.y = data\.y\.long\(\)"),
        (torch.eye(12), r"a row that is not one-hot, .* give y\.argmax\(axis=1\)"),
        (torch.rand(12, 2), "2-dimensional y must hold 0 and 1"),
        (torch.zeros(12, 1, 1, dtype=torch.int64), "y must be 1-dimensional integers"),
        (torch.tensor([0, 1, -2] * 4), r"y must be in \[-1, 12\), got -2 to 1"),
        (torch.zeros(11, dtype=torch.int64), "y must have one label per node, got 11 for 12"),
        ([0, 1, 2] * 4, "y must be a tensor, got list"),
        (torch.zeros(12, dtype=torch.complex64), r"y must be integers \(classes\), floats .* got complex64"),
    ],
)
def test_what_is_no_class_a_node_is_refused_with_what_to_do(data: Data, y: object, message: str) -> None:
    data.y = y
    with pytest.raises(GraphError, match=message):
        Graph.from_pyg(_with_masks(data))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(12,), (12, 1)])
def test_integers_are_classes(data: Data, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    data.y = (torch.arange(12) % 3).to(dtype).reshape(shape)
    assert Graph.from_pyg(_with_masks(data)).labels.tolist() == [0, 1, 2] * 4


@pytest.mark.parametrize(
    ("attributes", "names"),
    [
        ({"edge_time": torch.ones(12)}, "edge_time is"),
        (
            {"edge_attr": torch.ones(12, 3, 2), "edge_type": torch.zeros(12, dtype=torch.int64)},
            "edge_attr, edge_type are",
        ),
    ],
)
def test_attributes_of_edges_are_not_left_out_without_a_word(
    data: Data, attributes: dict[str, torch.Tensor], names: str, tmp_path: Path
) -> None:
    for name, value in attributes.items():
        data[name] = value
    with pytest.warns(UserWarning, match=f"pyg: {names} not used: of edges, a3gnn reads"):
        graph = Graph.from_pyg(_with_masks(data))
    assert graph.notes == (f"{names} not used: of edges, a3gnn reads numbers in edge_attr and edge_weight",)
    torch.save(data, tmp_path / "weighted.pt")
    assert Graph.load(tmp_path / "weighted.pt").notes == graph.notes
    assert Graph.load(tmp_path / "weighted.pt").on_disk().notes == graph.notes


def test_a_data_is_saved_as_if_it_had_not_been_read(data: Data) -> None:
    before, after = io.BytesIO(), io.BytesIO()
    torch.save(_with_masks(data), before)
    Graph.from_pyg(data)
    torch.save(data, after)
    assert before.getvalue() == after.getvalue()


def test_attributes_of_nodes_and_of_the_graph_are_no_news(data: Data) -> None:
    data.pos, data.title = torch.zeros(12, 2), "a ring"
    data.edge_index = data.edge_index[:, :9]
    assert Graph.from_pyg(_with_masks(data)).notes == ()


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool, torch.float8_e4m3fn]
)
def test_features_of_other_types_become_floats_and_it_is_said(data: Data, dtype: torch.dtype) -> None:
    data.x = torch.arange(36).reshape(12, 3).remainder(2).to(dtype)
    graph = Graph.from_pyg(_with_masks(data))
    assert graph.features.arrays()["x"].dtype == np.float32
    assert graph.features.arrays()["x"].ravel().tolist() == [0, 1] * 18
    assert graph.notes == (f"features were {str(dtype).removeprefix('torch.')}; they are stored as float32",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x": torch.zeros(12, 3, dtype=torch.complex64)},
            r"x must be real, got torch.complex64; use torch\.vie",
        ),
        ({"x": np.zeros((12, 3), np.float32)}, "x must be a tensor, got ndarray; torch.as_tensor converts an array"),
        ({"x": torch.zeros(12)}, "x must be real numbers, such as float32, of 2 dimensions"),
        ({"edge_index": torch.rand(2, 12)}, "edge_index must be integers of 2 dimensions, got float32"),
        ({"edge_index": torch.zeros(12, 2, dtype=torch.int64)}, r"edge_index must have shape \(2, E\), got \(12, 2\)"),
        ({"edge_index": torch.full((2, 12), 12)}, r"edge_index must be in \[0, 12\)"),
        (
            {"edge_index": None, "adj_t": torch.eye(12).to_sparse()},
            "lacks edge_index; it has adj_t: leave out the",
        ),
        ({"edge_index": torch.tensor(3)}, r"edge_index must be integers of 2 dimensions, got int64 of shape \(\)"),
        (
            {"edge_index": torch.eye(2).to_sparse()},
            "edge_index must be dense and of a type that NumPy has",
        ),
        ({"y": torch.tensor(3)}, r"y must be 1-dimensional integers .* got int64 of shape \(\); give one per node"),
        ({"y": torch.zeros(12, 0)}, r"2-dimensional y must have 2 columns or more, .* got shape \(12, 0\)"),
        ({"y": torch.eye(12).to_sparse()}, "y must be dense"),
        ({"train_mask": torch.arange(4)}, "train_mask must be bool of 1 dimension, got int64"),
        ({"train_mask": torch.zeros(12, 0, dtype=torch.bool)}, "train_mask must be bool of 1 dimension"),
    ],
)
def test_a_wrong_attribute_is_named(data: Data, changes: dict[str, object], message: str) -> None:
    _with_masks(data)
    for name, value in changes.items():
        data[name] = value
    with pytest.raises(GraphError, match=f"^pyg: .*{message}"):
        Graph.from_pyg(data)


def test_edges_of_32_bits_are_edges(data: Data) -> None:
    expected = Graph.from_pyg(_with_masks(data))
    data.edge_index = data.edge_index.int()
    assert Graph.from_pyg(data).fingerprint == expected.fingerprint


def test_the_first_of_several_splits_is_used_and_it_is_said(data: Data) -> None:
    _with_masks(data)
    one = Graph.from_pyg(data)
    data.train_mask = data.train_mask[:, None]
    assert Graph.from_pyg(data).notes == ()
    data.val_mask = torch.stack([data.val_mask, torch.arange(12) == 3], dim=1)
    graph = Graph.from_pyg(data)
    assert (graph.fingerprint, graph.notes) == (one.fingerprint, ("it had 2 splits; the first is used",))


def test_what_is_saved_and_no_data_is_said(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "other.pt")
    with pytest.raises(GraphError, match=r"other\.pt must hold a PyG Data, got list; several graphs train as one"):
        Graph.load(tmp_path / "other.pt")
    torch.save(HeteroData(), tmp_path / "other.pt")
    with pytest.raises(GraphError, match="other: a HeteroData must have node types, got none"):
        Graph.load(tmp_path / "other.pt")


def _of_two_types() -> HeteroData:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.rand(3, 4), torch.rand(2, 4)
    data["user"].y, data["item"].y = torch.tensor([0, 1, 0]), torch.tensor([1, 0])
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1], [0, 1]])
    return data


def test_the_remedies_for_several_heterogeneous_graphs_lead_to_one_graph(tmp_path: Path) -> None:
    graphs, file = [_of_two_types(), _of_two_types()], tmp_path / "graphs.pt"
    batch = Batch.from_data_list(graphs)
    known = {"torch": torch, "Data": Data, "Batch": Batch, "batch": batch, "FILE": file}
    torch.save(batch, file)
    with pytest.raises(GraphError, match=r"a Batch of HeteroData by (torch\.save\(.*, FILE\))") as refused:
        Graph.load(file)
    exec(re.search(r"of HeteroData by (torch\.save\(.*, FILE\))", str(refused.value))[1], known)
    joined = Graph.load(file)
    torch.save(graphs, file)
    with pytest.raises(GraphError, match=r"heterogeneous.*; several graphs train as one") as refused:
        Graph.load(file)
    one, several = re.search(r"; (data\.\S+) can convert it; .*?: (.*) joins them", str(refused.value)).groups()
    known["graphs"] = [eval(one, {"data": data}) for data in graphs]
    torch.save(eval(several, known), file)
    for graph in (joined, Graph.load(file)):  # their nodes have another order
        assert (graph.num_nodes, graph.num_edges, sorted(graph.labels.tolist())) == (10, 4, [0] * 6 + [1] * 4)


def test_nodes_without_features_are_not_lost_without_a_word(data: Data, tmp_path: Path) -> None:
    data.num_nodes = 15
    torch.save(data, tmp_path / "more.pt")
    for load in (lambda: Graph.load(tmp_path / "more.pt"), lambda: Graph.from_unlabeled(data)):
        with pytest.raises(GraphError, match=r"x must have one row per node, got 12 rows for num_nodes 15. Append"):
            load()


def test_attributes_of_other_edges_are_refused(data: Data) -> None:
    data.edge_weight = torch.rand(11)
    with pytest.raises(GraphError, match="edge_weight must have one row per edge, got 11 rows for 12 edges"):
        Graph.from_pyg(data)


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo, torch.sparse_csr])
def test_features_beyond_float32_are_named(layout: torch.layout, data: Data) -> None:
    x = data.x.double()
    x[3, 1], x[4, 0] = -1e300, 1e39
    data.x = x.to_sparse(layout=layout) if layout != torch.strided else x
    with pytest.raises(
        GraphError, match=r"x must fit float32, .* 3\.4e\+38, got 2 values beyond, such as -1e\+300; scale x"
    ):
        Graph.from_pyg(_with_masks(data))
