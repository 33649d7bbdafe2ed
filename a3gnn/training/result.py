"""What a training run reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a3gnn.config import Task, TrainConfig


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What `train` found; `docs/measurement.md` defines each figure.

    Attributes:
        test_accuracy: At the best validation epoch, in [0, 1].
        val_accuracy: At that epoch, in [0, 1].
        best_epoch: That epoch, from 1.
        epochs: Epochs trained.
        throughput_epochs_per_s: One over the median training time of an epoch; evaluation is left out.
        peak_host_bytes: Peak of anonymous and shared-anonymous memory, evaluation included.
        peak_device_bytes: Peak that torch's allocator reserved on the device; 0 without one.
        cache_hit_rate: Share of input rows that the cache served in the last epoch.
        cache_bytes: What the cache really took.
        seconds: What this call took: after a resume, the rest of the run.
        folder: Where its files are: model.pt, metrics.jsonl, checkpoint.pt, result.json.
        config: How it was trained.
        task: What was trained.
        graph: The graph's name.
    """

    test_accuracy: float
    val_accuracy: float
    best_epoch: int
    epochs: int
    throughput_epochs_per_s: float
    peak_host_bytes: int
    peak_device_bytes: int
    cache_hit_rate: float
    cache_bytes: int
    seconds: float
    folder: Path
    config: TrainConfig
    task: Task
    graph: str

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as one JSON object."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return fields | {"folder": str(self.folder), "config": self.config.to_dict(), "task": self.task.to_dict()}
