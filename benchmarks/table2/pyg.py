"""PyG's side of the table: a step and the peak of its memory as its examples write them, and its accuracy."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from a3gnn.task import Task
from benchmarks.engine.client import Engine, Resident
from benchmarks.engine.measure import training_memory
from benchmarks.engine.workers.work import Unavailable, Work

_SCRIPT = Path(__file__).parent / "pyg_script.py"

_CHECK = "from torch_geometric.typing import WITH_PYG_LIB as a, WITH_TORCH_SPARSE as b; raise SystemExit(not (a or b))"

#: PyG's loader without worker processes and its model without trimming, as its examples have them.
VARIANT = "0 workers"
#: Mini-batches that are timed, and those before them that are left out.
_BATCHES, _SKIPPED = 30, 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Peaks over the mini-batches, and what the process takes before it opens the graph, in bytes.

    Attributes:
        anonymous: Peak anonymous memory.
        total: Peak of all memory, files included, shared pages divided among processes (PSS).
        idle: Both of the idle process.
    """

    anonymous: int
    total: int
    idle: Resident

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Returns the memory of `to_dict`."""
        return cls(**{**fields, "idle": Resident(*fields["idle"])})


def step_ms(python: Path, folder: Path, work: Work) -> float:
    """Returns the median milliseconds of a training step, loading included.

    Raises:
        Unavailable: PyG can't do it here; the message says why.
    """
    with Engine("pyg", python) as engine:
        engine.ask("open", folder=str(folder))
        engine.ask("start", key="step", work=work.to_dict(), variant=VARIANT)
        found = engine.ask("measure", key="step", count=_BATCHES, skip=_SKIPPED)
    return float(statistics.median(found["ms"]))


def memory(python: Path, folder: Path, work: Work) -> Memory:
    """Returns the memory of a new process that trains.

    Raises:
        Unavailable: PyG can't do it here; the message says why.
    """
    with Engine("pyg", python) as engine:
        idle = engine.resident()
    found = training_memory("pyg", python, folder, work, VARIANT, _BATCHES)
    if found.missing:
        raise Unavailable(found.missing)
    return Memory(found.peak_anonymous, found.peak, idle)


def add_peers_dir(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the folder that `make peers` built."""
    default = Path(__file__).parents[2] / ".peers"
    parser.add_argument("--peers-dir", type=Path, default=default, help="what make peers built (default: .peers)")


def pyg_python(peers_dir: Path) -> Path | None:
    """Returns the interpreter of the environment `pyg`, or None if there is none or it can't sample neighbors."""
    python = peers_dir / "pyg" / "bin" / "python"
    if not python.is_file() or subprocess.run([python, "-c", _CHECK], capture_output=True, check=False).returncode:
        return None
    return python


def accuracies(
    python: Path, folder: Path, batch_size: int, task: Task, epochs: int, seeds: Iterable[int]
) -> list[float]:
    """Returns the test accuracy, in [0, 1], of PyG's GraphSAGE after `epochs` of the graph in `folder`, per seed."""
    command = [python, _SCRIPT, folder, "--epochs", epochs, "--batch-size", batch_size]
    command += ["--hidden", task.hidden_channels, "--dropout", task.dropout, "--learning-rate", task.learning_rate]
    command += ["--fanouts", *task.fanouts, "--seeds", *seeds]
    run = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line)["test"] for line in run.stdout.splitlines()]
