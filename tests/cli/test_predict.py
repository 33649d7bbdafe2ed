"""`a3gnn predict`: the file that it writes, what it says of it, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from a3gnn import predict
from a3gnn.cli.main import main
from a3gnn.errors import ExitCode
from a3gnn.storage.claim import claimed_whole
from tests.answers import checked

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"
MINE = """
import torch
from torch_geometric.nn import SAGEConv


class Mine(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = SAGEConv(in_channels, out_channels)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)
"""


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return int(ended.value.code or 0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that holds mine.py, from which Python does not import of itself."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder not in ("", str(tmp_path))])
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("model", ["sage", "mine:Mine"])
def test_it_writes_what_python_returns(model: str, here: Path, capsys) -> None:
    assert run("train", "--model", model, "--fanouts", "5", "--dataset", SPEC, "--epochs", 1, "--out", "run") == 0
    sys.modules.pop("mine", None)
    sys.path[:] = [folder for folder in sys.path if folder != str(here)]
    capsys.readouterr()
    assert run("predict", "run", "--dataset", SPEC, "--out", "found.npy") == 0
    assert capsys.readouterr().out == "Saved class probabilities to found.npy (float32, 300 x 4)\n"
    found = np.load("found.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, predict("run/model.pt", SPEC).numpy())
    assert run("predict", "run/model.pt", "--dataset", SPEC, "--out", "again.npy", "--json") == 0
    assert checked("predict", capsys.readouterr().out) == {"file": "again.npy", "target": "classes", "shape": [300, 4]}


def test_scratch_can_be_rounded_and_has_a_limit(here: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("train", "--model", "gin", "--fanouts", "5,5", "--dataset", SPEC, "--epochs", 1, "--out", "run") == 0
    assert run("predict", "run", "--dataset", SPEC, "--out", "exact.npy") == 0
    assert run("predict", "run", "--dataset", SPEC, "--out", "rounded.npy", "--scratch-dtype", "float16") == 0
    assert "layers are computed in 1, 1 groups of columns: " in capsys.readouterr().err
    rounded, exact = np.load("rounded.npy"), np.load("exact.npy")
    assert 0 < np.abs(rounded - exact).max() < 0.02
    monkeypatch.setenv("A3GNN_DISK_LIMIT", "1GiB")  # which the command replaces
    arguments = ("--scratch-dtype", "float16", "--disk-limit", "1KiB")
    assert run("predict", "run", "--dataset", SPEC, "--out", "none.npy", *arguments) == ExitCode.FAILED
    assert "A3GNN_DISK_LIMIT allows 1.00 KiB" in capsys.readouterr().err
    assert not (here / "none.npy").exists()


def test_the_model_is_read_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("train", "--model", "sage", "--fanouts", "5", "--dataset", SPEC, "--epochs", 1, "--out", "run") == 0
    read, load = [], torch.load

    def noted(file: Path, **options: object) -> object:
        read.append(file)
        return load(file, **options)

    monkeypatch.setattr(torch, "load", noted)
    assert run("predict", "run", "--dataset", SPEC, "--out", "found.npy") == 0
    assert read == [Path("run/model.pt")]


def test_a_file_that_is_there_and_other_endings_are_refused(here: Path, capsys) -> None:
    (here / "found.npy").write_text("mine")
    for out in ("found.npy", "found.csv"):
        assert run("predict", "run", "--dataset", SPEC, "--out", out) == ExitCode.USAGE
        assert f"--out must be a new file FILE.npy, got {out}" in capsys.readouterr().err
    assert run("predict", "run", "--dataset", SPEC, "--out", "new.npy") == ExitCode.USAGE
    assert "run does not exist; a3gnn train --out DIR writes one" in capsys.readouterr().err
    assert (here / "found.npy").read_text() == "mine"


def test_a_file_that_another_process_is_writing_is_refused(here: Path, capsys) -> None:
    with claimed_whole(here / "found.npy"):
        assert run("predict", "run", "--dataset", SPEC, "--out", "found.npy") == ExitCode.USAGE
    assert "one run at a time may write found.npy" in capsys.readouterr().err
