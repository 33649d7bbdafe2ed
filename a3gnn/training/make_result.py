"""`make_result`: what a training run says when it has ended."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import torch

from a3gnn.machine.probe import kept_hardware
from a3gnn.nvtps import nvtps_per_gb_per_s
from a3gnn.training.adapting.trainer import AdaptingTrainer
from a3gnn.training.progress import Progress
from a3gnn.training.ranks.processes import Alone
from a3gnn.training.request import TrainRequest
from a3gnn.training.result import TrainResult
from a3gnn.training.run import ended_at
from a3gnn.training.target import Target
from a3gnn.training.trainer import Trainer
from a3gnn.training.work import Work, WorkFigures


def make_result(
    trainer: Trainer,
    done: Progress,
    request: TrainRequest,
    folder: Path,
    seconds: float,
    stolen_share: float,
    target: Target | None,
    test_accuracy: float,
    energy: str,
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
        energy: What energy counts, or why it is not told.
        us: Which of how many processes this is.
    """
    reached = None if target is None else done.reached(target.accuracy)
    best = None if ended_at(target, done) else done.best
    kept = reached if best is None else best
    assert kept is not None
    speed, figures = done.epochs_per_s(trainer.batches_per_epoch), _figures(trainer, done)
    return TrainResult(
        test_accuracy=test_accuracy,
        val_accuracy=kept.val_accuracy,
        best_epoch=None if best is None else best.epoch,
        epochs=len(done.epochs),
        throughput_epochs_per_s=speed,
        target_accuracy=None if target is None else target.accuracy,
        seconds_to_accuracy=None if reached is None else reached.train_s,
        batches_to_accuracy=None if reached is None else reached.batches,
        eval_seconds_to_accuracy=None if reached is None else reached.eval_s,
        eval_seconds=done.eval_s,
        peak_host_bytes=us.total(trainer.memory.peak_bytes),
        peak_device_bytes=int(torch.cuda.max_memory_reserved()) if torch.cuda.is_available() else 0,
        cache_hit_rate=done.cache_hit_rate,
        cache_bytes=trainer.cache_bytes,
        seconds_per_epoch=1 / speed,
        nvtps=figures.nvtps,
        nvtps_per_gb_per_s=_per_gb_per_s(figures.nvtps, trainer, us),
        mteps=figures.mteps,
        kj_per_epoch=figures.kilojoules,
        energy=energy,
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


def _figures(trainer: Trainer, done: Progress) -> WorkFigures:
    """Returns the medians of finished epochs; before one is finished, an estimate from the mini-batches under way."""
    if done.epochs:
        return WorkFigures(*(_median([getattr(one, name) for one in done.epochs]) for name in WorkFigures._fields))
    under_way = done.under_way
    found = WorkFigures.of(trainer.over_ranks(Work(*under_way.work)), under_way.seconds)
    whole = trainer.batches_per_epoch / under_way.batches
    return found._replace(kilojoules=None if found.kilojoules is None else found.kilojoules * whole)


def _median(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else None


def _per_gb_per_s(traversed_per_s: float | None, trainer: Trainer, us: Alone) -> float | None:
    """Returns NVTPS per GB/s of all machines' memory, which are taken to be like this one."""
    machines = us.total(int(us.leads_machine))
    known = None if trainer.gpus else kept_hardware()
    if traversed_per_s is None or known is None:
        return None
    return nvtps_per_gb_per_s(traversed_per_s, machines * known.host_bytes_per_s)
