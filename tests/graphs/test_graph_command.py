from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from tests.commands import Ended, a3gnn

Arrays = dict[str, np.ndarray]
SPEC = "synthetic:nodes=200,degree=5,features=4"


def _a3gnn(*arguments: str | Path) -> Ended:
    return a3gnn("graph", *arguments)


def test_convert_then_info(tmp_path: Path) -> None:
    done = _a3gnn("convert", SPEC, tmp_path / "graph")
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "graph"))
    described = _a3gnn("info", tmp_path / "graph", "--json")
    expected = Graph.load(SPEC).characteristics().to_dict()
    assert json.loads(described.stdout) == expected | {"notes": []}


def test_convert_within_a_budget(tmp_path: Path) -> None:
    assert _a3gnn("convert", SPEC, tmp_path / "graph", "--memory-budget", "4kB").returncode == 0
    assert Graph.load(tmp_path / "graph").fingerprint == Graph.load(SPEC).fingerprint
    assert _a3gnn("convert", SPEC, tmp_path / "graph", "--memory-budget", "lots").returncode == 2


def test_convert_refuses_what_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = _a3gnn("convert", SPEC, tmp_path)
    assert done.returncode == 1
    assert "must be new or empty, or hold this graph" in done.stderr
    assert done.stdout == ""


def test_info_prints_every_characteristic_and_the_notes(arrays: Arrays, npz: Callable[..., Path]) -> None:
    loop = np.concatenate([arrays["edge_index"], [[2], [2]]], axis=1)
    done = _a3gnn("info", npz(arrays, edge_index=loop))
    assert done.returncode == 0
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    for name in ("nodes", "directed edges", "in-degree Gini", "homophily", "connectedness", "cached 10% of rows"):
        assert name in lines
    assert "1 of 8 edges are self loops" in lines["note"]


def test_info_prints_the_share_of_reversed_edges(arrays: Arrays, npz: Callable[..., Path]) -> None:
    once = np.array([[0, 0, 1, 2], [1, 2, 3, 3]])
    for edges, share in ((once, "0.0%"), (np.hstack([once, once[::-1, :1]]), "40.0%")):
        lines = _a3gnn("info", npz(arrays, edge_index=edges)).stdout.splitlines()
        (row,) = [line.split(maxsplit=2)[2] for line in lines if line.startswith("reversed edges")]
        assert row == f"{share}; 0% if undirected edges are stored once"


@pytest.mark.parametrize(("spec", "code"), [("cora.csv", 2), ("synthetic:nodes=1", 2), ("gone.npz", 2)])
def test_a_wrong_graph_has_its_exit_code(spec: str, code: int) -> None:
    assert _a3gnn("info", spec).returncode == code
