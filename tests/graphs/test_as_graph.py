"""What people pass as their data: one function for all that takes it, and an error that lists what is taken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset, TemporalData

from a3gnn import Loader, TrainConfig, train, tune
from a3gnn.errors import UsageError
from a3gnn.graphs.as_graph import as_graph, spec_of
from a3gnn.graphs.graph import Graph

SPEC = "synthetic:nodes=60,degree=4,features=4,classes=3"


class Datasets(InMemoryDataset):
    """What people give instead of `dataset[0]`."""

    def __init__(self) -> None:
        super().__init__(None)


@pytest.fixture
def data() -> Data:
    ring = torch.arange(60)
    return Data(x=torch.eye(60), edge_index=torch.stack([ring, (ring + 1) % 60]), y=ring % 3)


def test_a_graph_is_itself(tiny_graph: Graph) -> None:
    assert as_graph(tiny_graph) is tiny_graph


def test_specs_and_paths_are_loaded(tiny_graph: Graph, tmp_path: Path) -> None:
    assert as_graph(SPEC).num_nodes == 60
    folder = tiny_graph.save(tmp_path / "graph").folder
    assert as_graph(folder).fingerprint == as_graph(str(folder)).fingerprint == tiny_graph.fingerprint


def test_a_data_is_read_with_its_labels(data: Data) -> None:
    assert as_graph(data).labels[:4].tolist() == [0, 1, 2, 0]


_REFUSED: list[tuple[Any, str]] = [
    (42, "got 42"),
    (None, "got None"),
    ([], "got list"),
    ({"x": 1}, "got dict"),
    (b"graph.npz", "got bytes"),
    (np.zeros(3), "got ndarray"),
    (torch.zeros(3), "got Tensor"),
    (Data, "got <class .*Data"),
    (TemporalData(), "got TemporalData; only Loader and LinkNeighborLoader take events with times"),
    (Datasets(), r"got Datasets; give dataset\[0\]"),
    (networkx.DiGraph([(0, 1)]), "got DiGraph; torch_geometric.utils.from_networkx converts it to a Data"),
]


@pytest.mark.parametrize(("other", "got"), _REFUSED)
def test_anything_else_is_refused_with_what_is_taken(other: Any, got: str) -> None:
    with pytest.raises(UsageError, match=rf"data must be a path or spec, an a3gnn Graph or a PyG Data, {got}.*\.npz"):
        as_graph(other)


def _loads(other: Any) -> Any:
    return Loader(other, [2])


@pytest.mark.parametrize(
    ("taker", "other"),
    [(taker, other) for taker in (tune, lambda other: train(TrainConfig(), other), _loads) for other in (42, [1])],
)
def test_every_entrance_refuses_it_alike(other: Any, taker: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="data must be a path or spec, an a3gnn Graph or a PyG Data, got"):
        taker(other)
    assert list(tmp_path.iterdir()) == []


def test_a_data_is_trained_on(data: Data, tmp_path: Path) -> None:
    result = train(TrainConfig(batch_size=64), data, epochs=1, out=tmp_path / "run")
    assert result.epochs == 1


def test_the_spec_leads_back_to_the_graph(data: Data, tiny_graph: Graph, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_graph.save("graph")
    for given in (data, tiny_graph, SPEC, "graph", Path("graph")):
        graph = as_graph(given)
        spec = spec_of(given, graph)
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("/")
            assert Graph.load(spec).fingerprint == graph.fingerprint
            if given is data:
                assert Graph.load(spec).notes == graph.notes


def test_the_loader_takes_a_spec() -> None:
    batch = next(iter(Loader(SPEC, [2], batch_size=8)))
    assert (batch.batch_size, len(batch.y)) == (8, len(batch.n_id))


def test_asking_what_something_is_imports_neither_torch_nor_pyg() -> None:
    code = (
        "import sys; from a3gnn.graphs.as_graph import as_graph\n"
        "try: as_graph(42)\n"
        "except ValueError as error: print(error, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")
