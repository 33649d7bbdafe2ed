"""Data sets by name, with the real PyG and torch; of OGB only what it does with files, where it is not installed."""

from __future__ import annotations

import gzip
import importlib.util
import pickle
import sys
import urllib.error
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from a3gnn.errors import GraphError, MissingDependencyError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import target_of
from a3gnn.graphs.pyg_sets import pyg_classes

HAS_OGB = importlib.util.find_spec("ogb") is not None


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
    with pytest.raises(GraphError, match=r"pyg:Flickr can't be loaded \(.*check the name; if the files in"):
        Graph.load("pyg:Flickr")


def test_an_unwritable_cache_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        GraphError, match=r"pyg:Cora can't be loaded .*; its files go to .*; set A3GNN_CACHE to a writable folder"
    ):
        Graph.load("pyg:Cora")


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "ExplainerDataset",
            "needs the arguments graph_generator and motif_generator and num_motifs, which",
        ),
        (
            "StochasticBlockModelDataset",
            "needs the arguments block_sizes and edge_probs, which a name can't contain; .*from_pyg",
        ),
        ("TUDataset", "must have the name of a data set, got none; give pyg:TUDataset/NAME"),
        ("Actor/Film", "has a single data set, got pyg:Actor/Film; leave out /Film"),
        ("KarateClub/Zachary", "has a single data set, got pyg:KarateClub/Zachary; leave out /Zachary"),
    ],
)
def test_what_a_class_needs_beside_its_name_is_said(name: str, message: str) -> None:
    with pytest.raises(GraphError, match=f"pyg:{name.partition('/')[0]} {message}"):
        Graph.load(f"pyg:{name}")


def test_an_unknown_data_set_lists_the_known_ones() -> None:
    with pytest.raises(GraphError, match=r"pyg:Corra is unknown; .* one of Cora, CiteSeer"):
        Graph.load("pyg:Corra")


@pytest.mark.skipif(HAS_OGB, reason="ogb is installed")
def test_ogb_without_its_package_says_how_to_install_it() -> None:
    with pytest.raises(MissingDependencyError, match=r'pip install "a3gnn\[ogb\]"'):
        Graph.load("ogb:ogbn-arxiv")


def test_a_data_set_of_many_graphs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Molecules(list[Data]):
        def __init__(self, root: str) -> None:
            super().__init__([Data(), Data()])

    monkeypatch.setattr("torch_geometric.datasets.Molecules", Molecules, raising=False)
    with pytest.raises(GraphError, match=r"pyg:Molecules must be one graph, got 2; use Graph\.from_pyg\(dataset"):
        Graph.load("pyg:Molecules")


def ring() -> Data:
    """As OGB makes them: labels in a column, NaN for unlabeled."""
    nodes = torch.arange(12)
    y = (nodes % 3).float()[:, None]
    y[11] = torch.nan
    return Data(num_nodes=12, edge_index=torch.stack([nodes, (nodes + 1) % 12]), x=torch.eye(12), y=y)


SPLIT = {"train": np.arange(4), "valid": np.arange(4, 7), "test": np.array([7, 10])}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Stands for OGB: a class that calls torch.load, with its defaults, on the files that OGB's would."""

    def make(data: Any, split: Any = SPLIT, error: BaseException | None = None) -> None:
        torch.save((data, None), tmp_path / "geometric_data_processed.pt")
        torch.save(split, tmp_path / "split_dict.pt")

        class PygNodePropPredDataset:
            def __init__(self, name: str, root: str) -> None:
                print(f"fetching {name}")
                if error is not None:
                    raise error
                self.data, self.slices = torch.load(tmp_path / "geometric_data_processed.pt")

            def __getitem__(self, index: int) -> Any:
                return self.data

            def get_idx_split(self) -> Any:
                return torch.load(tmp_path / "split_dict.pt")

        monkeypatch.setitem(sys.modules, "ogb", ModuleType("ogb"))
        module = SimpleNamespace(PygNodePropPredDataset=PygNodePropPredDataset)
        monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)

    return make


@pytest.mark.parametrize("kind", ["int64", "int32", "tensors"])
def test_what_ogb_saved_is_loaded_as_torch_does_by_default(
    kind: str, serve: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = kind == "tensors"
    serve(ring(), {part: torch.tensor(ids) if tensors else ids.astype(kind) for part, ids in SPLIT.items()})
    graph = Graph.load("ogb:ogbn-ring")
    assert graph.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, -1]
    assert (graph.train_ids.tolist(), graph.test_ids.tolist()) == ([0, 1, 2, 3], [7, 10])
    assert capsys.readouterr().out == ""


class Opener:
    """Runs code when it is unpickled, unless the loader refuses."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("opened-by-a-pickle", "w")


def test_a_file_of_ogb_can_not_run_code(
    serve: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    serve(Opener())
    with pytest.raises(
        GraphError, match=r"ogb:ogbn-ring can't be loaded \(UnpicklingError.*check the name; if the files"
    ):
        Graph.load("ogb:ogbn-ring")
    assert not (tmp_path / "opened-by-a-pickle").exists()


def test_the_classes_are_allowed_for_the_time_being_only(tmp_path: Path) -> None:
    torch.save((ring(), SPLIT), tmp_path / "saved.pt")
    for _ in range(2):
        with pyg_classes():
            assert torch.load(tmp_path / "saved.pt")[0].num_nodes == 12
        with pytest.raises(pickle.UnpicklingError):
            torch.load(tmp_path / "saved.pt", weights_only=True)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (urllib.error.URLError("no route"), r"can't be downloaded \(URLError.*no route.*check the network, or put its"),
        (ConnectionResetError("reset"), r"can't be downloaded \(ConnectionResetError: reset\); check the network"),
        (EOFError(), "its library asks before it downloads, but nobody can answer here; load it once in a terminal"),
        (SystemExit(-1), "the download to .* was declined"),
        (
            ValueError("Invalid dataset name\nogbn-a"),
            r"can't be loaded \(ValueError: Invalid dataset name ogbn-a\); check the name; if",
        ),
        (PermissionError(13, "Permission denied"), r"can't be loaded .*; set A3GNN_CACHE to a writable folder"),
        (RuntimeError("No necessary file"), r"can't be loaded \(RuntimeError: No necessary file\); .*delete them"),
    ],
)
def test_an_error_says_what_failed(error: BaseException, message: str, serve: Callable[..., None]) -> None:
    serve(ring(), error=error)
    with pytest.raises(GraphError, match=rf"ogb:ogbn-ring:? {message}"):
        Graph.load("ogb:ogbn-ring")


def test_an_error_of_the_network_is_one_whatever_wraps_it(serve: Callable[..., None]) -> None:
    wrapped = RuntimeError("Stopped downloading due to interruption.")
    wrapped.__context__ = TimeoutError()
    serve(ring(), error=wrapped)
    with pytest.raises(GraphError, match=r"can't be downloaded .*check the network"):
        Graph.load("ogb:ogbn-ring")


@pytest.mark.parametrize("data", [HeteroData(), Data(x_dict={}, num_nodes=1)])
def test_a_heterogeneous_data_set_is_refused(data: Any, serve: Callable[..., None]) -> None:
    serve(data)
    with pytest.raises(
        GraphError, match="ogb:ogbn-ring must have one type of nodes and edges, but it is heterogeneous"
    ):
        Graph.load("ogb:ogbn-ring")


def test_floats_of_ogb_that_are_no_classes_are_values(serve: Callable[..., None]) -> None:
    data = ring()
    data.y += 0.5
    serve(data)
    labels = Graph.load("ogb:ogbn-ring").labels
    assert target_of(labels) == "values"
    assert labels[:3].tolist() == [0.5, 1.5, 2.5]
    assert np.isnan(labels[11])


@pytest.mark.filterwarnings("ignore")  # OGB's own
@pytest.mark.skipif(not HAS_OGB, reason='ogb is not installed: pip install "a3gnn[ogb]"')
def test_ogb_itself_reads_its_files(cache_folder: Path) -> None:
    folder = cache_folder / "downloads" / "ogb" / "ogbn_arxiv"
    data, draw = ring(), np.random.default_rng(0)
    tables = {
        "raw/edge": data.edge_index.numpy().T,
        "raw/num-node-list": [[12]],
        "raw/num-edge-list": [[12]],
        "raw/node-feat": draw.random((12, 4)),
        "raw/node_year": np.full((12, 1), 2020),
        "raw/node-label": data.y.numpy(),
    } | {f"split/time/{part}": ids[:, None] for part, ids in SPLIT.items()}
    for name, table in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            np.savetxt(file, np.asarray(table), delimiter=",", fmt="%g")
    (folder / "RELEASE_v1.txt").touch()
    for _ in range(2):  # it processes its files, then reads what it has processed
        graph = Graph.load("ogb:ogbn-arxiv")
        assert graph.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, -1]
        assert graph.train_ids.tolist() == [0, 1, 2, 3]
