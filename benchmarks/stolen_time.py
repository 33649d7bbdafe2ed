"""By how much steal time slows training: the exponent of `a3gnn.threads.stolen_time`, and what it mends.

    python -m benchmarks.stolen_time GRAPH [--seconds 150]

On a virtual machine whose host serves others too. The default and two quick configurations train in turns, a window
each; the share of the cores' time that the hypervisor gave to others meanwhile is what the kernel says. Printed are,
per configuration, the exponent that least squares find, the spread of the windows' speed as it is, and that without
the stolen time. Nothing else should run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.machine.other_work import OtherWork
from a3gnn.profiling.trial.window import Epochs, Window
from a3gnn.report.text import describe_config
from a3gnn.task import Task
from a3gnn.threads.affinity import available_cores
from a3gnn.threads.stolen_time import stretch
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer
from benchmarks.engine.graphs import spec_of

CONFIGS = (
    TrainConfig(),
    TrainConfig(batch_size=4096, seed_fanout=5, deep_fanout=5),
    TrainConfig(batch_size=128, seed_fanout=5, deep_fanout=5, input_aggregation="full"),
)
_WINDOW_S = 0.66
#: Windows in which other processes took more than this share of the cores are left out.
_OTHERS = 0.05


def measured(graph: Graph, seconds: float) -> list[list[tuple[float, float]]]:
    """Returns per configuration the epochs per second of its windows, and the share of the cores stolen meanwhile."""
    found: list[list[tuple[float, float]]] = [[] for _ in CONFIGS]
    with ExitStack() as stack:
        trained: list[Epochs[Step]] = []
        for config in CONFIGS:
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            trainer = stack.enter_context(Trainer(graph, config, Task(), device="cpu", scratch=Path(scratch)))
            trained.append(Epochs(trainer.steps, trainer.starts, trainer.batches_per_epoch))
        others, begun = OtherWork(), time.perf_counter()
        numbers = count()
        for epochs in trained:
            _window(epochs, numbers)
        while time.perf_counter() - begun < seconds:
            for own, epochs in zip(found, trained, strict=True):
                started, other, stolen = time.perf_counter(), others.seconds(), others.stolen_seconds()
                window = _window(epochs, numbers)
                cores_s = (time.perf_counter() - started) * available_cores()
                other, stolen = others.seconds() - other, others.stolen_seconds() - stolen
                if other - stolen < _OTHERS * cores_s:
                    own.append((window.throughput(epochs.batches), min(stolen / cores_s, 0.99)))
    return found


def _window(epochs: Epochs[Step], numbers: count[int]) -> Window[Step]:
    return Window.timed(epochs, numbers, least_batches=2, seconds=_WINDOW_S, clock=time.perf_counter)


def main() -> None:
    """Prints a line per configuration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", metavar="GRAPH", help="a real graph's name, or what --dataset takes")
    parser.add_argument("--seconds", type=float, default=150.0)
    options, console = parser.parse_args(), Console(width=160, highlight=False)
    shown = Table("configuration", "windows", "stolen", "exponent", "spread", "without stolen time")
    for config, windows in zip(
        CONFIGS, measured(Graph.load(spec_of(options.graph)).on_disk(), options.seconds), strict=True
    ):
        speeds, shares = np.log([one[0] for one in windows]), np.array([one[1] for one in windows])
        left = np.log(1 - shares)
        exponent = np.polyfit(left, speeds, 1)[0]
        mended = speeds + np.log([stretch(share) for share in shares])
        row = (f"{shares.mean():.0%}", f"{exponent:.2f}", f"{speeds.std():.1%}", f"{mended.std():.1%}")
        shown.add_row(describe_config(config), str(len(windows)), *row)
    console.print(shown)


if __name__ == "__main__":
    main()
