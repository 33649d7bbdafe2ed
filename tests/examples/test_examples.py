"""PyG's example scripts, as this folder has their patterns, run with a change of the lines that name the loader."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from a3gnn.graphs.graph import Graph

_FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def data(small_graph: Graph) -> Data:
    return small_graph.to_pyg()


def swapped(name: str) -> tuple[str, list[str]]:
    """Returns the script with a3gnn's loader in the place of PyG's, and the lines that are new in it."""
    before = (_FOLDER / f"{name}.py").read_text()
    after = before.replace("from torch_geometric.loader import NeighborLoader", "from a3gnn import Loader")
    after = after.replace("NeighborLoader(", "Loader(")
    changes = difflib.ndiff(before.splitlines(), after.splitlines())
    return after, [line[2:] for line in changes if line.startswith("+ ")]


@pytest.fixture
def run(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a script that was changed so, and returns what it defined."""

    def run(name: str) -> dict[str, Any]:
        torch.save(data, tmp_path / "data.pt")
        monkeypatch.setattr("sys.argv", [name, str(tmp_path / "data.pt")])
        found: dict[str, Any] = {"__name__": "__main__"}
        torch.manual_seed(0)
        exec(compile(swapped(name)[0], f"{name}.py", "exec"), found)
        return found

    return run


def majority(data: Data) -> float:
    return float(data.y[data.test_mask].bincount().max() / data.test_mask.sum())


@pytest.mark.parametrize(("name", "lines"), [("reddit", 3), ("ogbn_train", 4)])
def test_the_change_is_the_import_and_a_line_per_loader(name: str, lines: int) -> None:
    after, changed = swapped(name)
    assert "NeighborLoader" not in after
    assert len(changed) == lines
    assert changed[0] == "from a3gnn import Loader"
    assert all(line.split(" = ")[1].startswith("Loader(") for line in changed[1:])


def test_reddit_learns_and_infers_layer_by_layer_what_the_whole_graph_gives(run, data: Data) -> None:
    found = run("reddit")
    assert found["test"]()[2] > majority(data) + 0.2
    model = found["model"].eval()
    with torch.no_grad():
        whole = model(data.x, data.edge_index)
    torch.testing.assert_close(model.inference(data.x, found["subgraph_loader"]), whole, rtol=1e-4, atol=1e-5)


def test_ogbn_train_learns(run, data: Data) -> None:
    found = run("ogbn_train")
    assert found["test"](found["test_loader"]) > majority(data) + 0.2
