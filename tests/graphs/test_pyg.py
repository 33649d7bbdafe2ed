from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from a3gnn.errors import GraphError, MissingDependencyError
from a3gnn.graphs.graph import Graph


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
    assert graph.indices.tolist() == [11, *range(11)]  # node v's only in-neighbour is v - 1


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
    with pytest.raises(GraphError, match=r"model\.pt must hold a PyG Data, got dict; save dataset\[0\]"):
        Graph.load(tmp_path / "model.pt")


def test_without_masks_labelled_nodes_are_split_and_it_is_said(data: Data) -> None:
    data.y[3] = -1
    graph = Graph.from_pyg(data)
    assert "split 60/20/20" in graph.notes[0]
    ids = np.concatenate([graph.train_ids, graph.val_ids, graph.test_ids])
    assert sorted(ids.tolist()) == [v for v in range(12) if v != 3]
    assert (len(graph.train_ids), len(graph.val_ids), len(graph.test_ids)) == (7, 2, 2)
    assert graph.fingerprint == Graph.from_pyg(data).fingerprint


def test_some_masks_are_not_enough(data: Data) -> None:
    data.train_mask = torch.arange(12) < 4
    with pytest.raises(GraphError, match=r"must have all of .* this one lacks val_mask, test_mask"):
        Graph.from_pyg(data)


@pytest.mark.parametrize("attribute", ["x", "edge_index", "y"])
def test_a_missing_attribute_is_named(data: Data, attribute: str) -> None:
    data[attribute] = None
    with pytest.raises(GraphError, match=f"this one lacks {attribute}"):
        Graph.from_pyg(data)


def test_doubles_become_floats_and_it_is_said(data: Data) -> None:
    data.x = data.x.double()
    graph = Graph.from_pyg(_with_masks(data))
    assert graph.features.arrays()["x"].dtype == np.float32
    assert graph.notes == ("features were float64; they are stored as float32",)


def test_sparse_coo_features_are_those_of_the_dense_matrix(data: Data) -> None:
    dense = torch.where(data.x > 0, data.x, 0)
    data.x = dense.to_sparse_coo()
    stored = Graph.from_pyg(_with_masks(data)).features.arrays()
    parts = (stored["x_data"], stored["x_indices"], stored["x_indptr"])
    np.testing.assert_array_equal(scipy.sparse.csr_array(parts, shape=(12, 3)).toarray(), dense.numpy())


def test_labels_of_ogb_are_flattened_and_nan_is_unlabelled(data: Data) -> None:
    data = _with_masks(data)
    data.y = data.y.float()[:, None]
    data.y[3] = torch.nan
    assert Graph.from_pyg(data).labels.tolist() == [0, 1, 2, -1, 1, 2, 0, 1, 2, 0, 1, 2]


def test_a_regression_target_is_refused(data: Data) -> None:
    data.y = torch.rand(12) + 0.25
    with pytest.raises(GraphError, match="y must be integers of 1 dimension"):
        Graph.from_pyg(_with_masks(data))


def test_a_data_set_by_name_whose_files_are_there_already(cache_folder: Path) -> None:
    raw = cache_folder / "downloads" / "pyg" / "Actor" / "raw"
    raw.mkdir(parents=True)
    rows = "".join(f"{v}\t{v % 4},{4 + v % 2}\t{v % 3}\n" for v in range(12))
    (raw / "out1_node_feature_label.txt").write_text("node_id\tfeature\tlabel\n" + rows)
    edges = "".join(f"{v}\t{(v + 1) % 12}\n" for v in range(12))
    (raw / "out1_graph_edges.txt").write_text("node_id\tnode_id\n" + edges)
    for split in range(10):
        names = enumerate(("train_mask", "val_mask", "test_mask"))
        masks = {name: (np.arange(12) + split) % 3 == i for i, name in names}
        np.savez(raw / f"film_split_0.6_0.2_{split}.npz", **masks)
    graph = Graph.load("pyg:actor")
    assert (graph.name, graph.num_nodes, graph.num_features, graph.num_classes) == ("pyg:actor", 12, 6, 3)
    assert graph.notes == ("it had 10 splits; the first is used",)
    assert graph.train_ids.tolist() == [0, 3, 6, 9]


def test_a_download_that_fails_is_one_clear_error(cache_folder: Path) -> None:
    blocked = cache_folder / "downloads" / "pyg" / "Flickr"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where the folder must be")
    with pytest.raises(GraphError, match=r"pyg:Flickr can't be loaded or downloaded to .*check the name and the net"):
        Graph.load("pyg:Flickr")


def test_an_unknown_data_set_lists_the_known_ones() -> None:
    with pytest.raises(GraphError, match=r"pyg:Corra is unknown; .* one of Cora, CiteSeer"):
        Graph.load("pyg:Corra")


@pytest.mark.skipif(importlib.util.find_spec("ogb") is not None, reason="ogb is installed")
def test_ogb_without_its_package_says_how_to_install_it() -> None:
    with pytest.raises(MissingDependencyError, match=r'pip install "a3gnn\[ogb\]"'):
        Graph.load("ogb:ogbn-arxiv")
