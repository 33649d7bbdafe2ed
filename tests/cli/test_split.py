"""`--split` and `--split-seed` of commands, and that a tune's training has the tune's own split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from a3gnn.cli.main import main
from a3gnn.graphs.graph import Graph
from tests.commands import process

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"
SPLIT = "0.5,0.2,0.3"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return int(ended.value.code or 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A graph without masks."""
    data = Graph.load(SPEC).to_pyg()
    path = tmp_path / "plain.npz"
    np.savez(path, edge_index=data.edge_index.numpy(), x=data.x.numpy(), y=data.y.numpy())
    return path


def described(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert run("graph", "info", *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_graph_is_described_with_a_split(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", "info", file) == 0
    assert "it had no masks; labeled nodes are split 60/20/20" in " ".join(capsys.readouterr().out.split())
    one, other = (described(capsys, file, "--split", SPLIT, "--split-seed", seed) for seed in (3, 4))
    assert one["fingerprint"] == Graph.load(file, SPLIT, 3).fingerprint
    assert other["fingerprint"] == Graph.load(file, SPLIT, 4).fingerprint != one["fingerprint"]
    assert described(capsys, f"split:{SPLIT}:3:{file}") == one


@pytest.mark.parametrize("split", ["0.5,0.5", "0.9,0.2,0.2", "a,b,c", "0,0.5,0.5"])
def test_shares_that_are_none_are_refused(split: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", "info", file, "--split", split) == 2
    assert "--split" in capsys.readouterr().err


@pytest.mark.slow
def test_a_tuned_configuration_is_trained_on_the_tunes_split(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, split = tmp_path / "tune", ["--split", SPLIT, "--split-seed", "3"]
    task = ["--hidden", "16", "--fanouts", "4,4", "--accuracy-epochs", "1", "--max-accuracy-drop", "100"]
    tuned = process("tune", "--dataset", file, *split, *task, "--engine", "random", "--budget", "1", "--out", out)
    assert tuned.returncode == 0, tuned.stderr
    graph = json.loads((out / "tuned.json").read_text(encoding="utf-8"))["graph"]
    assert graph["spec"] == f"split:{SPLIT}:3:{file}"
    assert graph["fingerprint"] == Graph.load(file, SPLIT, 3).fingerprint == Graph.load(graph["spec"]).fingerprint
    capsys.readouterr()
    assert run("train", "--config", out / "tuned.json", "--epochs", 1, "--out", tmp_path / "run") == 0
    assert "labeled nodes are split 50/20/30 at random, seed 3" in capsys.readouterr().err
