"""Our side of the table: what tunes choose, and training it to convergence, watched from outside."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.training.tuned import TunedConfig
from benchmarks.engine.client import Resident, resident, watched

#: Seconds between two looks at a process's memory: a look takes milliseconds, and what lasts less is small.
_LOOK_S = 0.1
_IDLE = "import sys, torch, a3gnn.cli.train, a3gnn.apply.train; print('ready', flush=True); sys.stdin.read()"


class Failed(Exception):  # noqa: N818 - it is an answer, not a mistake
    """A tune or a training gave no result; the message is the reason that the table shows."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A training to convergence.

    Attributes:
        epochs_per_s: Epochs per second, evaluation left out.
        test_accuracy: With the weights of the best validation epoch, in [0, 1].
        best_epoch: That epoch, from 1.
        seconds: Seconds of training up to that epoch, at its median pace.
        anonymous: Peak anonymous memory of the process, in bytes.
        total: Peak of all its memory, files included, shared pages divided among processes (PSS), in bytes.
    """

    epochs_per_s: float
    test_accuracy: float
    best_epoch: int
    seconds: float
    anonymous: int
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Returns the training of `to_dict`."""
        return cls(**fields)


def tuned(graph: Path, priority: str, folder: Path, budget: str, memory_limit: str, drop: float) -> TunedConfig:
    """Returns what a tune of the converted `graph` chooses; one that is in `folder` goes on, or is done already.

    The tunes of one graph share a store beside their folders, so that none measures what another one has.

    Raises:
        Failed: It chose nothing.
    """
    command = [sys.executable, "-m", "a3gnn", "tune", "--dataset", str(graph), "--priority", priority]
    command += ["--budget", budget, "--max-accuracy-drop", str(drop), "--out", str(folder)]
    command += ["--metric", "accuracy"]  # which the peers are judged by, on unbalanced graphs too
    command += ["--store", str(folder.parent / f"{graph.name}.sqlite")]
    if memory_limit != "none":
        command += ["--memory-limit", memory_limit]
    folder.parent.mkdir(parents=True, exist_ok=True)
    if (folder / "request.json").exists():
        command.append("--resume")
    run = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        raise Failed(f"tune: {run.stderr.strip().rpartition(chr(10))[2]}")
    return TunedConfig.read(folder)


def trained(of: TunedConfig, config: TrainConfig, seed: int, epochs: int | None) -> Trained:
    """Returns a training of `config`, by `a3gnn train` in a process of its own, without a memory limit.

    Args:
        of: A tune of the graph; it names graph and task.
        config: What is trained.
        seed: Of weights and mini-batches.
        epochs: Epochs at most; None until nothing improves.

    Raises:
        Failed: It did not end well.
    """
    free = dataclasses.replace(of, config=config, limits=Limits(), target_accuracy=None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        free.write(folder / "tuned.json")
        command = [sys.executable, "-m", "a3gnn", "train", "--config", str(folder), "--seed", str(seed)]
        command += [] if epochs is None else ["--epochs", str(epochs)]
        command += ["--out", str(folder / "run"), "--json"]
        with open(folder / "errors", "w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            with watched(lambda: resident(process.pid), _LOOK_S) as seen:
                out, _ = process.communicate()
            errors.seek(0)
            said = errors.read().strip()
    if process.returncode:
        raise Failed(f"train: {said.rpartition(chr(10))[2]}")
    found = json.loads(out)
    speed, best = found["throughput_epochs_per_s"], found["best_epoch"]
    memory = max(one.anonymous for one in seen), max(one.total for one in seen)
    return Trained(speed, found["test_accuracy"], best, best / speed, *memory)


def idle() -> Resident:
    """Returns the memory of a process that has loaded what training needs, and nothing else."""
    process = subprocess.Popen([sys.executable, "-c", _IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    found = resident(process.pid)
    process.communicate("")
    return found
