"""The environment that PyG's NeighborLoader runs in, apart from a3gnn's."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from a3gnn.task import Task

SCRIPT = Path(__file__).parent / "workers" / "pyg_script.py"

_CHECK = "from torch_geometric.typing import WITH_PYG_LIB as a, WITH_TORCH_SPARSE as b; raise SystemExit(not (a or b))"


def add_peers_dir(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the folder that `make peers` built."""
    default = Path(__file__).parents[1] / ".peers"
    parser.add_argument("--peers-dir", type=Path, default=default, help="what make peers built (default: .peers)")


def pyg_python(peers_dir: Path) -> Path | None:
    """Returns the interpreter of the environment `pyg`, or None if there is none or it can't sample neighbours."""
    python = peers_dir / "pyg" / "bin" / "python"
    if not python.is_file() or subprocess.run([python, "-c", _CHECK], capture_output=True, check=False).returncode:
        return None
    return python


def pyg_accuracies(
    python: Path, folder: Path, batch_size: int, task: Task, epochs: int, seeds: Iterable[int]
) -> list[float]:
    """Returns the test accuracy, in [0, 1], of PyG's GraphSAGE after `epochs` of the graph in `folder`, per seed."""
    command = [python, SCRIPT, folder, "--epochs", epochs, "--batch-size", batch_size]
    command += ["--hidden", task.hidden_channels, "--dropout", task.dropout, "--learning-rate", task.learning_rate]
    command += ["--fanouts", *task.fanouts, "--seeds", *seeds]
    run = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line)["test"] for line in run.stdout.splitlines()]
