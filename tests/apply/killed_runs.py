"""python -m tests.apply.killed_runs FOLDER --kills 30: trainings and predictions that are killed, and then finished.

Each child is killed with SIGKILL: at a random file operation, or with `--by-time` after a random time. A training goes
on from the folder, and a prediction begins again. The weights and predictions must equal the undisturbed ones, and no
other files may be left.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import torch

from a3gnn.apply.train import train
from a3gnn.cli.main import app
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from tests.graphs.killed_conversions import Children

_TASK = Task(hidden_channels=16, fanouts=(5, 5))


def trained(graph: Path, run: Path, say: Callable[[str], None]) -> None:
    """Trains in `run`, from the checkpoint that a killed process has left there."""
    resume = (run / "checkpoint.pt").is_file()
    say("continuing" if resume else "beginning")
    train(TrainConfig(), graph, task=_TASK, epochs=5, out=run, resume=resume, references=False)


def predicted(graph: Path, run: Path, out: Path, say: Callable[[str], None]) -> None:
    """Writes the predictions of all nodes."""
    with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
        app.main(["predict", str(run), "--dataset", str(graph), "--out", str(out)], standalone_mode=False)


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Returns the weights of a finished training."""
    return torch.load(run / "model.pt", weights_only=True)


def names(folder: Path) -> list[str]:
    """Returns the files in `folder`."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def killed(children: Children, place: Path, kills: int, draw: np.random.Generator, most: float) -> int:
    """Runs children until `kills` of them were killed and the last one lives; returns how many lived.

    `most` is the last operation or second at which one may be killed. What a finished one wrote to `place` is removed;
    a killed one may have written a file, but only a whole one.
    """
    left, lived, contents = kills, 0, set[bytes]()
    while True:
        at_operation = int(draw.integers(1, most)) if isinstance(most, int) and left else 0
        after_s = draw.uniform(0, most) if left and not at_operation else None
        lives = children.run(at_operation=at_operation, after_s=after_s)
        contents |= {place.read_bytes()} if place.is_file() else set()
        assert len(contents) < 2
        if lives and not left:
            return lived + 1
        left, lived = left - (not lives), lived + lives
        if place.is_file():
            place.unlink()
        elif lives:
            shutil.rmtree(place)


def main() -> None:
    """Trains and predicts as the command line says, and prints the kills and the lives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=10, help="of trainings, and as many of predictions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by-time", action="store_true")
    given = parser.parse_args()
    folder, draw = given.folder, np.random.default_rng(given.seed)
    folder.mkdir(parents=True)
    graph = folder / "graph"
    Graph.load("synthetic:nodes=3000,degree=8,features=16,classes=4").save(graph)
    done: dict[str, dict[str, int | float]] = {"train": {}, "predict": {}}
    for kill in (False, True):
        home = folder / ("killed" if kill else "whole")
        home.mkdir()
        run, out = home / "run", home / "predictions.npy"
        for name, work in {
            "train": partial(trained, graph, run),
            "predict": partial(predicted, graph, run, out),
        }.items():
            children, begin = Children(work, folder / f"{name}.log"), time.monotonic()
            if kill:
                lived = killed(children, run if name == "train" else out, given.kills, draw, done[name]["most"])
                done[name] |= {"kills": given.kills, "lived": lived, "continued": children.continued()}
            else:
                assert children.run()
                seconds = time.monotonic() - begin
                done[name]["most"] = seconds if given.by_time else children.operations()
    whole, other = (folder / what for what in ("whole", "killed"))
    for name, tensor in weights(whole / "run").items():
        assert torch.equal(tensor, weights(other / "run")[name]), name
    assert (whole / "predictions.npy").read_bytes() == (other / "predictions.npy").read_bytes()
    assert names(whole) == names(other), set(names(whole)) ^ set(names(other))
    print(json.dumps(done))


if __name__ == "__main__":
    main()
