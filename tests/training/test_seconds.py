"""What counts as training in the seconds that `train` prints beside a tune's promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TRAIN = """
import sys
from a3gnn.config import TrainConfig
from a3gnn.task import Task
from a3gnn.training import compile_ahead
from a3gnn.training import train as module

class Noting(module.Trainer):
    def __init__(self, *arguments, **options):
        print("imported" if "torch._dynamo" in sys.modules else "not yet")
        super().__init__(*arguments, **options)

compile_ahead.is_compiled = lambda wanted: True  # what compiles is not the question here
module.Trainer = Noting
task = Task(hidden_channels=8, fanouts=(3, 3))
module.train(TrainConfig(), "synthetic:nodes=300", task=task, epochs=1, out=sys.argv[1])
"""


def test_what_trials_begin_with_is_imported_before_seconds_count(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", TRAIN, str(tmp_path / "run")], capture_output=True, text=True, check=True, timeout=300
    )
    assert run.stdout.split() == ["imported"]
