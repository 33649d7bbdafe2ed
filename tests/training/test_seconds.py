"""What counts as training in the seconds that `train` prints beside a tune's promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TRAIN = """
import sys
from a3gnn.config import TrainConfig
from a3gnn.task import Task
from a3gnn.training import compile_ahead, rank_processes
from a3gnn.apply.train import train

def tell():
    print("imported" if "torch._dynamo" in sys.modules else "not imported", file=sys.stderr)

class Noting(rank_processes.Trainer):
    def __init__(self, *arguments, **options):
        tell()
        super().__init__(*arguments, **options)

compile_ahead.is_compiled = lambda wanted: True  # what compiles is not the question here
rank_processes.Trainer = Noting
for task, model in ((Task(hidden_channels=8, fanouts=(3, 3)), None), (None, "my_models:Linear")):
    train(TrainConfig(), "synthetic:nodes=300", task=task, model=model, epochs=1, out=f"run-{model}")
    tell()
"""

MODEL = """
import torch

class Linear(torch.nn.Module):
    def __init__(self, narrow, wide):
        super().__init__()
        self.map = torch.nn.Linear(narrow, wide)

    def forward(self, x, edge_index):
        return self.map(x)
"""


def test_what_an_optimizer_imports_is_there_before_seconds_count_or_never(tmp_path: Path) -> None:
    """A model of the user's may have any of torch's optimizers; ours of the built-in models imports nothing."""
    (tmp_path / "my_models.py").write_text(MODEL, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-c", TRAIN],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert [line for line in run.stderr.splitlines() if line.endswith("imported")] == [
        *(["not imported"] * 2),
        *(["imported"] * 2),
    ]
