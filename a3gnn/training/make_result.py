"""`make_result`: what a training run says when it has ended."""

from __future__ import annotations

from pathlib import Path

import torch

from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.progress import Progress
from a3gnn.training.ranks.processes import Alone
from a3gnn.training.request import TrainRequest
from a3gnn.training.result import TrainResult
from a3gnn.training.run import ended_at
from a3gnn.training.target import Target
from a3gnn.training.trainer import Trainer


def make_result(
    trainer: Trainer,
    done: Progress,
    request: TrainRequest,
    folder: Path,
    seconds: float,
    stolen_share: float,
    target: Target | None,
    test_accuracy: float,
    us: Alone,
) -> TrainResult:
    """Returns the result of a run that has ended.

    Args:
        trainer: With the weights that are kept.
        done: How far it came.
        request: What was trained.
        folder: The run's.
        seconds: Of the call.
        stolen_share: Share of the cores' time that others took.
        target: What was to be reached; None for nothing.
        test_accuracy: Quality on test nodes.
        us: Which of how many processes this is.
    """
    reached = None if target is None else done.reached(target.accuracy)
    best = None if ended_at(target, done) else done.best
    kept = reached if best is None else best
    assert kept is not None
    return TrainResult(
        test_accuracy=test_accuracy,
        val_accuracy=kept.val_accuracy,
        best_epoch=None if best is None else best.epoch,
        epochs=len(done.epochs),
        throughput_epochs_per_s=done.epochs_per_s(trainer.batches_per_epoch),
        target_accuracy=None if target is None else target.accuracy,
        seconds_to_accuracy=None if reached is None else reached.train_s,
        batches_to_accuracy=None if reached is None else reached.batches,
        eval_seconds_to_accuracy=None if reached is None else reached.eval_s,
        eval_seconds=done.eval_s,
        peak_host_bytes=us.total(trainer.memory.peak_bytes),
        peak_device_bytes=int(torch.cuda.max_memory_reserved()) if torch.cuda.is_available() else 0,
        cache_hit_rate=done.cache_hit_rate,
        cache_bytes=trainer.cache_bytes,
        seconds=seconds,
        stolen_share=stolen_share,
        folder=folder,
        evaluation=trainer.evaluation,
        config=request.config,
        task=request.task,
        graph=request.graph.name,
        metric=trainer.metric,
        ranks=us.count,
        trainers=trainer.trainers,
        algorithm=us.told(done),
        adapted=trainer.division.told if isinstance(trainer, AdaptingTrainer) else None,
    )
