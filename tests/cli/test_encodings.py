"""Commands on files and folders whose names are not UTF-8, such as those of an old archive."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"
KEPT = Path(__file__).parents[1] / "tuning" / "kept" / "memory"


@pytest.fixture
def cafe(tmp_path: Path) -> Path:
    """A folder whose name is Latin-1."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except (OSError, UnicodeError):
        pytest.skip("the file system takes no such name")
    return folder


#: Runs commands in turns in one process, as its entry point does up to the exit.
COMMANDS = """
import json, sys
from a3gnn.cli.main import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as ended:
        if ended.code:
            raise
    print(flush=True, end="\\0")
"""


def run(program: Sequence[str]) -> bytes:
    """Returns what a program prints, whose output and files are in UTF-8."""
    done = subprocess.run(
        [sys.executable, *program], capture_output=True, check=False, env={**os.environ, "PYTHONUTF8": "1"}
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert b"Traceback" not in done.stderr
    return done.stdout


def a3gnn(*arguments: str | Path) -> bytes:
    """Returns what a command prints, in a process of its own."""
    return run(["-m", "a3gnn", *map(str, arguments)])


def in_turns(*commands: tuple[str | Path, ...]) -> list[bytes]:
    """Returns what each of the commands prints, all in one process: a process takes seconds to start."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    *printed, rest = run(["-c", COMMANDS, words]).split(b"\0")
    assert not rest
    return printed


def test_a_graph_is_described_and_converted(cafe: Path) -> None:
    graph, path = Graph.load(SPEC), cafe / os.fsdecode(b"gr\xe4ph.npz")
    data = graph.to_pyg()
    masks = {name: data[name].numpy() for name in ("train_mask", "val_mask", "test_mask")}
    np.savez(path, edge_index=data.edge_index.numpy(), x=data.x.numpy(), y=data.y.numpy(), **masks)
    shown, converted = in_turns(("graph", "info", path), ("graph", "convert", path, cafe / "folder"))
    assert b"gr\xef\xbf\xbdph" in shown
    assert os.fsencode(cafe / "folder") in converted
    assert Graph.load(cafe / "folder").fingerprint == Graph.load(path).fingerprint


def test_a_tune_there_is_exported_and_reported(cafe: Path) -> None:
    folder = cafe / os.fsdecode(b"tun\xe9")
    shutil.copytree(KEPT, folder)
    database = cafe.parent / "optuna.db"
    a3gnn("export", folder, "--optuna", f"sqlite:///{database}")
    with closing(sqlite3.connect(database)) as connection:
        names = connection.execute("SELECT study_name FROM studies").fetchall()
        marks = connection.execute("SELECT value_json FROM study_user_attributes WHERE key = 'a3gnn_tune'").fetchall()
    assert [name.endswith(" tun\N{REPLACEMENT CHARACTER}") for (name,) in names] == [True]
    assert len(marks) == 1
    again = "export", folder, "--optuna", f"sqlite:///{database}", "--replace"
    _, front, report = in_turns(again, ("front", folder), ("report", folder))
    assert front
    assert report.strip() == os.fsencode(folder / "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.weekly
def test_it_is_trained_and_tuned_there(cafe: Path) -> None:
    out = cafe / os.fsdecode(b"l\xe4uft")
    a3gnn("train", "--model", "sage", "--dataset", SPEC, "--epochs", "1", "--ranks", "2", "--out", out)
    assert (out / "result.json").exists()
    tuned = cafe / os.fsdecode(b"tun\xe9")
    task = ["--dataset", SPEC, "--hidden", "16", "--fanouts", "4,4"]
    a3gnn("tune", *task, "--accuracy-epochs", "1", "--max-accuracy-drop", "100", "--budget", "10s", "--out", tuned)
    a3gnn("train", "--config", tuned / "tuned.json", "--epochs", "1", "--out", cafe / "again")
    assert (cafe / "again" / "model.pt").exists()
