"""Folders in which the docs' commands find what the docs speak of: graphs, finished runs, a model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from tests.docs.listed import SHARED, SUBSTITUTIONS
from tests.docs.pages import shown
from tests.docs.running import run, substituted
from tests.graphs.test_typed import written
from tests.once import made_once


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with graph.npz and what `SHARED` makes of it."""

    def make(folder: Path) -> None:
        save(Graph.load("synthetic:nodes=600,degree=8,classes=4,features=16"), folder / "graph.npz")
        for command in SHARED:
            run(substituted(command, SUBSTITUTIONS).replace("--budget 2s", "--budget 5s"), folder)  # some trials

    return made_once(tmp_path_factory, "docs", make)


def save(graph: Graph, file: Path) -> None:
    """Writes a graph as the README says that an .npz file has it."""
    data = graph.to_pyg()
    arrays = {name: data[name].numpy() for name in ("edge_index", "x", "y", "train_mask", "val_mask", "test_mask")}
    np.savez(file, **arrays)


@pytest.fixture
def folder(shared: Path, tmp_path: Path) -> Path:
    """A folder of the test's own with all that pages speak of as given."""
    for name in ("graph", "huge", "mine", "graphs/mine"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(shared / "graph.npz", tmp_path / f"{name}.npz")
    written(tmp_path)
    for name in ("mine", "small", "throughput", "time"):
        shutil.copytree(shared / "runs" / "mine", tmp_path / "runs" / name)
    for name in ("trained", "train-mine"):
        shutil.copytree(shared / "runs" / "trained", tmp_path / "runs" / name)
    shutil.copy(shared / "runs" / "mine" / "tuned.json", tmp_path)
    (tmp_path / "my_package").mkdir()
    model = shown("docs/howto/own_models.md", "python")[0].text
    (tmp_path / "my_package" / "models.py").write_text(model, encoding="utf-8")
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    return tmp_path
