"""What a training run reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.metric import Metric
from a3gnn.task import Task


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What `train` found; `docs/measurement.md` defines each figure.

    Attributes:
        test_accuracy: Quality on test nodes by the task's metric, with the weights in model.pt; evaluated once, at the
            end.
        val_accuracy: Quality on validation nodes, with the same weights.
        best_epoch: The epoch that these weights are of, from 1; None where training ended at the target.
        epochs: Epochs trained to their end.
        throughput_epochs_per_s: One over the median training time of an epoch; evaluation is left out.
        target_accuracy: The validation quality that was to be reached; None without a target.
        seconds_to_accuracy: Seconds of training, set-up included and evaluation left out, until validation reached the
            target; None where it did not.
        batches_to_accuracy: Mini-batches until then; None likewise.
        eval_seconds_to_accuracy: Seconds of evaluation until then; None likewise.
        eval_seconds: Seconds of all evaluations of validation.
        peak_host_bytes: Peak of anonymous and shared-anonymous memory, evaluation included.
        peak_device_bytes: Peak that torch's allocator reserved on the device; 0 without one.
        cache_hit_rate: Share of input rows that the cache served in the last epoch.
        cache_bytes: What the cache really took.
        seconds_per_epoch: Median training time of an epoch; evaluation is left out.
        nvtps: Vertices traversed per second over all layers, ranks and trainers, the median of epochs (HitGNN's Eq. 3).
        nvtps_per_gb_per_s: That over the GB/s at which the probe copied rows in the memory of the machines that train;
            None where it never ran here, or where a GPU trains, whose memory it does not time.
        mteps: Millions of edges traversed per second, likewise (HyScale-GNN's Eq. 5).
        kj_per_epoch: kJ that the machines' processors and GPUs took for training an epoch, the median of epochs; None
            where one doesn't tell.
        energy: What that counts, or why it is not told.
        seconds: What this call took: after a resume, the rest of the run.
        stolen_share: Share of its cores' time that the hypervisor gave to other machines while this call trained and
            evaluated, in [0, 1]. Seconds and throughput include it; those of a tune do not.
        folder: Where its files are: model.pt, metrics.jsonl, checkpoint.pt, result.json.
        evaluation: From what the quality was computed.
        config: How it was trained.
        task: What was trained.
        graph: The graph's name.
        metric: By what the qualities are.
        ranks: Processes that trained it together; memory is that of all of them, other figures are rank 0's.
        trainers: Of trainers of this process that trained it together: `names`, `kinds`, `shares` of seeds, `sampling`
            of mini-batches, `prefetch`, the depths that were asked for, and `repeated_work`, what all shares take over
            the whole of the first mini-batches (`a3gnn.runtime.repeated`). Where they adapted, these are of the end,
            beside their `threads` and all `changes` (`a3gnn.training.hybrid.control.adaptation.DivisionChange`). None
            for one trainer.
        algorithm: Of the synchronous algorithm that ranks trained by: its `name`, `iterations` of an epoch, what each
            rank read and sent in all epochs (`ranks`: a `Traffic` each), and `partition_s`, the seconds that
            partitioning took (docs/algorithms.md). None without one.
        adapted: Of one trainer that adapted, the `preparation` of mini-batches in the end and all `changes`
            (`a3gnn.training.adapting.preparing.PreparationChange`); None of others.
    """

    test_accuracy: float
    val_accuracy: float
    best_epoch: int | None
    epochs: int
    throughput_epochs_per_s: float
    target_accuracy: float | None
    seconds_to_accuracy: float | None
    batches_to_accuracy: int | None
    eval_seconds_to_accuracy: float | None
    eval_seconds: float
    peak_host_bytes: int
    peak_device_bytes: int
    cache_hit_rate: float
    cache_bytes: int
    seconds_per_epoch: float
    nvtps: float | None
    nvtps_per_gb_per_s: float | None
    mteps: float | None
    kj_per_epoch: float | None
    energy: str
    seconds: float
    stolen_share: float
    folder: Path
    evaluation: str
    config: TrainConfig
    task: Task
    graph: str
    metric: Metric
    ranks: int = 1
    trainers: dict[str, Any] | None = None
    algorithm: dict[str, Any] | None = None
    adapted: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as one JSON object."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        parts = {"config": self.config.to_dict(), "task": self.task.to_dict(), "metric": self.metric.to_dict()}
        return fields | {"folder": str(self.folder), **parts}
