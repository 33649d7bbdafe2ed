"""The commands that the docs show do what the docs say: each page's are run in a folder of their own, in order.

What several pages stand on, a small graph, a finished tune of it and a training, is made once for all workers, by the
README's own commands.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from tests.docs.listed import COMMANDS, RUN, substituted
from tests.docs.pages import ROOT, shown
from tests.service.servers import serving

SERVER = "http://127.0.0.1:8642"
#: What the README makes, in this order, and other pages go on with.
SHARED = (
    "a3gnn tune --dataset graph.npz --priority time --memory-limit 4GiB --budget 10min --out runs/mine",
    "a3gnn train --config runs/mine/tuned.json --out runs/trained",
)
MODELS = next(block.text for block in shown("docs/own_models.md", "python"))


def run(script: str, folder: Path) -> str:
    """Returns the output of a bash script in a folder that is also the home; an error of any command is one of it."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, words in (("a3gnn", "-m a3gnn"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    sources = os.pathsep.join(map(str, (ROOT, ROOT / "surrogate", ROOT / "envs")))
    environment = os.environ | {
        "HOME": str(folder),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": sources,
        "ROOT": str(ROOT),
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{script}\nexited with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with graph.npz and what `SHARED` makes of it: one for all of pytest-xdist's workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "docs"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            save(Graph.load("synthetic:nodes=600,degree=8,classes=4,features=16"), folder / "graph.npz")
            for command in SHARED:
                run(substituted(command), folder)
            (folder / "done").touch()
    return folder


def save(graph: Graph, file: Path) -> None:
    data = graph.to_pyg()
    arrays = {name: data[name].numpy() for name in ("edge_index", "x", "y", "train_mask", "val_mask", "test_mask")}
    np.savez(file, **arrays)


@pytest.fixture
def folder(shared: Path, tmp_path: Path) -> Path:
    """A folder with all that the pages' commands find there: graphs, finished runs under their names, a model."""
    for name in ("graph", "huge", "mine", "graphs/mine"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(shared / "graph.npz", tmp_path / f"{name}.npz")
    for name in ("mine", "throughput", "time"):
        shutil.copytree(shared / "runs" / "mine", tmp_path / "runs" / name)
    for name in ("trained", "train-mine"):
        shutil.copytree(shared / "runs" / "trained", tmp_path / "runs" / name)
    shutil.copy(shared / "runs" / "mine" / "tuned.json", tmp_path)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "models.py").write_text(MODELS, encoding="utf-8")
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    return tmp_path


@contextlib.contextmanager
def server(commands: list[str], folder: Path) -> Iterator[str]:
    """Yields where a server runs, if one is asked by any of the commands, over the graphs in ~/graphs."""
    if not any(SERVER in command for command in commands):
        yield SERVER
        return
    with serving(folder / "service", "--data-root", str(folder / "graphs")) as started:
        yield started.url


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, told in COMMANDS.items() if RUN in told.values()])
def test_a_page(page: str, folder: Path) -> None:
    told = [command for command, what in COMMANDS[page].items() if what == RUN]
    with server(told, folder) as url:
        for block in shown(page, "bash"):
            commands = [one for one in block.commands if one in told and not (page == "README.md" and one in SHARED)]
            for made in made_anew(commands):
                shutil.rmtree(folder / made, ignore_errors=True)
            run("\n".join(substituted(command).replace(SERVER, url) for command in commands), folder)


def made_anew(commands: list[str]) -> Iterator[str]:
    """Yields the folders that commands make, which must not be there before: those of --out, below runs/."""
    for command in commands:
        _, option, rest = command.partition("--out runs/")
        if option:
            yield f"runs/{rest.split()[0]}"


def test_an_error_of_any_command_is_found(tmp_path: Path) -> None:
    assert run("echo one\npython -c 'print(2)'", tmp_path) == "one\n2\n"
    with pytest.raises(AssertionError, match="exited with 3"):
        run("python -c 'raise SystemExit(3)' | cat\necho two", tmp_path)
