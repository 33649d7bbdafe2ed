"""`a3gnn train` of which rank argv[1] takes a minute for a chunk of evaluation, once an epoch is done: a signal's time.

The rest are the arguments of `a3gnn`, --out among them. As that chunk begins, DIR.evaluating is written beside the
run's folder DIR.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

from a3gnn.cli.main import main
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer, TrainerOptions

_init = Trainer.__init__


def slowed(self: Trainer, graph: Graph, config: TrainConfig, task: Task, options: TrainerOptions, **named: Any) -> None:
    """Makes a trainer that asks for interrupts every tenth of a second within such a chunk."""
    check, folder = options.on_chunk, Path(sys.argv[sys.argv.index("--out") + 1])

    def on_chunk() -> None:
        log = folder / "metrics.jsonl"
        if os.environ["RANK"] == sys.argv[1] and log.exists() and log.read_text():
            folder.with_suffix(".evaluating").touch()
            for _ in range(600):
                time.sleep(0.1)
                check()
        check()

    _init(self, graph, config, task, dataclasses.replace(options, on_chunk=on_chunk), **named)


if __name__ == "__main__":
    Trainer.__init__ = slowed  # type: ignore[method-assign]
    main(sys.argv[2:])
