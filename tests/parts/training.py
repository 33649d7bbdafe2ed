"""What two trainings must have in common to be one and the same."""

from __future__ import annotations

import json
from pathlib import Path

import torch


def check_same_run(one: Path, other: Path) -> None:
    """Checks that two runs' folders hold the same weights, bit for bit, and the same losses and qualities."""
    mine, theirs = (torch.load(folder / "model.pt", weights_only=True) for folder in (one, other))
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(tensor, theirs[name]), name
    logs = [(folder / "metrics.jsonl").read_text().splitlines() for folder in (one, other)]
    epochs = [[json.loads(line) for line in log] for log in logs]
    assert len(epochs[0]) == len(epochs[1])
    for left, right in zip(*epochs, strict=True):
        assert (left["epoch"], left["loss"], left["val_accuracy"]) == (
            right["epoch"],
            right["loss"],
            right["val_accuracy"],
        )
