"""Trains and evaluates epoch by epoch, until enough are done, quality stops rising, or a target is reached."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from time import perf_counter

from a3gnn.learning_curve import next_point
from a3gnn.machine.energy import EnergyMeter
from a3gnn.training.progress import EpochResult, Point, Progress, TargetAccuracy
from a3gnn.training.step import EpochWork, Step
from a3gnn.training.trainer import Trainer


def fit(
    trainer: Trainer,
    progress: Progress,
    *,
    epochs: int,
    patience: int | None,
    target: TargetAccuracy | None = None,
    meter: EnergyMeter | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
    on_epoch: Callable[[EpochResult], None] = lambda result: None,
    on_point: Callable[[Point], None] = lambda point: None,
) -> None:
    """Trains `trainer` from `progress` on and updates both, so that they can be saved whenever this ends.

    Args:
        trainer: In the state of `progress`.
        progress: The run's progress.
        epochs: Total epochs.
        patience: Epochs without a better validation quality after which training ends; None for never.
        target: Until it is reached, validation is evaluated at the points of the learning curve too.
        meter: Measures the energy of training; by default of this machine's processors.
        on_step: Called after each mini-batch, once `progress` includes it.
        on_epoch: Called after each epoch, once `progress` includes it.
        on_point: Called after each point, once `progress` includes it.
    """
    meter = EnergyMeter() if meter is None else meter
    while not progress.is_over(epochs, patience):
        if _train_rest(trainer, progress, target, meter, on_step, on_point):
            return
        work = trainer.over_ranks(EpochWork(*progress.under_way.work))
        begin = perf_counter()
        last = progress.points[-1] if progress.points else None
        if last is not None and last.batches == _trained(trainer, progress):
            on_epoch(progress.finish_epoch(last.val_accuracy, 0.0, work))
        else:
            accuracy = trainer.validate()
            on_epoch(progress.finish_epoch(accuracy, perf_counter() - begin, work))


def _train_rest(
    trainer: Trainer,
    progress: Progress,
    target: TargetAccuracy | None,
    meter: EnergyMeter,
    on_step: Callable[[Step], None],
    on_point: Callable[[Point], None],
) -> bool:
    """Trains the rest of the current epoch, and returns whether training ends before the epoch does."""
    meter.taken(now=True)  # discards energy since the last epoch, which is not training's
    if _is_at_end(trainer, progress, target, meter, on_point):  # an interrupted point may still be due
        return True
    totals = progress.under_way
    try:
        last = perf_counter()
        with closing(trainer.steps(len(progress.epochs), totals.batches)) as steps:
            for step in steps:
                now = perf_counter()
                totals.add(step, now - last, meter.taken())
                on_step(step)
                if _is_at_end(trainer, progress, target, meter, on_point):
                    return True
                last = perf_counter()
        totals.seconds += perf_counter() - last
        return False
    finally:
        totals.add_joules(meter.taken(now=True))


def _is_at_end(
    trainer: Trainer,
    progress: Progress,
    target: TargetAccuracy | None,
    meter: EnergyMeter,
    on_point: Callable[[Point], None],
) -> bool:
    """Evaluates validation if a point is due, and returns whether training ends here because of its target."""
    if target is None:
        return False
    if progress.reached(target.accuracy) is None:
        batches = _trained(trainer, progress)
        due = next_point(progress.points[-1].batches if progress.points else 0, target.first)
        while due < batches:
            due = next_point(due, target.first)
        if due == batches:
            progress.under_way.add_joules(meter.taken(now=True))
            begin = perf_counter()
            try:
                accuracy = trainer.validate()
            finally:
                meter.taken(now=True)  # discards evaluation's energy
            on_point(progress.add_point(batches, accuracy, perf_counter() - begin))
    return target.ends and progress.reached(target.accuracy) is not None


def _trained(trainer: Trainer, progress: Progress) -> int:
    """Returns the mini-batches trained on so far."""
    return len(progress.epochs) * trainer.batches_per_epoch + progress.under_way.batches
