"""Graphs of several node types: reading an .npz file of them, and what `a3gnn graph info` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from a3gnn.errors import GraphError
from a3gnn.graphs.typed import read_typed
from tests.commands import a3gnn

RATES = "user__rates__item"


def arrays() -> dict[str, Any]:
    """Three users, two items, four ratings with times; items have sparse features."""
    return {
        "node_types": np.array(["user", "item"]),
        "num_nodes": np.array([3, 2]),
        "edge_types": np.array([RATES]),
        "x__user": np.arange(6, dtype=np.float32).reshape(3, 2),
        "x_data__item": np.array([5.0], dtype=np.float32),
        "x_indices__item": np.array([1]),
        "x_indptr__item": np.array([0, 0, 1]),
        "x_shape__item": np.array([2, 3]),
        "train_mask__user": np.array([True, False, False]),
        "val_mask__user": np.array([False, True, False]),
        f"edge_index__{RATES}": np.array([[0, 1, 2, 2], [1, 0, 1, 0]]),
        f"edge_time__{RATES}": np.array([7, 8, 9, 9]),
        f"edge_y__{RATES}": np.array([0, 1, 0, 1]),
    }


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "typed.npz"
    np.savez(path, **{name: value for name, value in {**arrays(), **changes}.items() if value is not None})
    return path


def test_types_relations_and_reverses_are_read(tmp_path: Path) -> None:
    found = read_typed(written(tmp_path), reverse=True)
    assert isinstance(found, HeteroData)
    assert found["item"].x.to_dense().tolist() == [[0, 0, 0], [0, 5, 0]]
    assert (found["user"].num_nodes, found["user"].train_mask.tolist()) == (3, [True, False, False])
    forward, back = found["user", "rates", "item"], found["item", "rev_rates", "user"]
    assert torch.equal(back.edge_index, forward.edge_index.flip(0))
    assert back.time is forward.time
    assert "edge_y" in forward and "edge_y" not in back  # noqa: PT018


def test_one_type_and_relation_are_a_data(tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    index = np.array([[0, 1], [1, 2]])
    np.savez(path, node_types=["a"], num_nodes=[3], edge_types=["a__to__a"], edge_index__a__to__a=index)
    found = read_typed(path)
    assert isinstance(found, Data)
    assert (found.num_nodes, found.edge_index.tolist()) == (3, index.tolist())
    assert isinstance(read_typed(path, reverse=True), HeteroData)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"edge_types": np.array(["user__rates__film"])},
            "edge_types must be different names .* got user__rates__film",
        ),
        (
            {f"edge_time__{RATES}": np.arange(3)},
            r"edge_time__.* must have a row per edge, got shape \(3,\) for 4 edges",
        ),
        ({f"edge_weight__{RATES}": np.ones(5)}, "edge_weight__.* must have a row per edge"),
        ({"x__user": np.ones((2, 2))}, r"x__user must have a row per node, got shape \(2, 2\) for 3 nodes"),
        ({f"edge_index__{RATES}": np.array([[0], [2]])}, r"must be in \[0, 2\) for item, got 2 to 2"),
        ({"val_mask__user": np.array([True, False, False])}, "masks of user must not overlap, but 1 nodes"),
        ({"train_mask__user": np.ones(3)}, "train_mask__user must be bool, got float64"),
        ({"num_nodes": np.array([3])}, "num_nodes must be an integer >= 0 for each of 2 node_types"),
        ({f"edge_index__{RATES}": None}, "needs edge_index__"),
        ({"x_shape__item": None}, "sparse features of item need .* they lack x_shape__item"),
        ({"x_shape__item": np.array([9, 3]), "x_indptr__item": np.zeros(10, int)}, "item"),
        ({"x__usr": np.ones(3)}, "got x__usr; did you mean 'x__user'"),
        ({"edge_types": None}, "it lacks edge_types"),
        ({"node_types": np.array(["user", None], dtype=object)}, "Python objects"),
    ],
)
def test_a_broken_file_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=message):
        read_typed(written(tmp_path, **changes))


def test_info_shows_types_relations_and_times(tmp_path: Path) -> None:
    path = written(tmp_path)
    shown = a3gnn("graph", "info", path)
    assert shown.returncode == 0, shown.stderr
    assert "3 nodes, 2 features" in shown.stdout
    assert "4 edges, mean in-degree 2.00, times 7 to 9" in shown.stdout
    torch.save(read_typed(path), tmp_path / "saved.pt")
    figures = [json.loads(a3gnn("graph", "info", file, "--json").stdout) for file in (path, tmp_path / "saved.pt")]
    assert figures[0] == figures[1]
    assert figures[0]["relations"]["user rates item"]["times"] == [7, 9]


def test_real_files_are_read(typed_folder: Path) -> None:
    for name in ("aifb", "bitcoin_otc", "movielens_small", "acm_papers"):
        found = read_typed(typed_folder / f"{name}.npz")
        with np.load(typed_folder / f"{name}.npz", allow_pickle=False) as archive:
            assert found.num_edges == sum(archive[f"edge_index__{one}"].shape[1] for one in archive["edge_types"])
            assert found.num_nodes == archive["num_nodes"].sum()
