"""Whole epochs, each with its evaluation, until enough are done or none gets better."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from time import perf_counter

from a3gnn.training.progress import EpochResult, Progress
from a3gnn.training.trainer import Step, Trainer


def fit(
    trainer: Trainer,
    progress: Progress,
    *,
    epochs: int,
    patience: int | None,
    on_step: Callable[[Step], None] = lambda step: None,
    on_epoch: Callable[[EpochResult], None] = lambda result: None,
) -> None:
    """Trains `trainer` from `progress` on, which is kept up to date: whenever this is left, both can be saved.

    Args:
        trainer: At the state that `progress` tells.
        progress: How far it has come.
        epochs: Epochs in all.
        patience: Epochs without a better validation accuracy after which training ends; None for never.
        on_step: Called after each mini-batch, when it counts in `progress`.
        on_epoch: Called after each epoch, likewise.
    """
    while not progress.is_over(epochs, patience):
        _train_rest(trainer, progress, on_step)
        begin = perf_counter()
        accuracies = trainer.evaluate()
        on_epoch(progress.finish_epoch(accuracies, perf_counter() - begin))


def _train_rest(trainer: Trainer, progress: Progress, on_step: Callable[[Step], None]) -> None:
    """Trains what is left of the epoch under way."""
    totals = progress.under_way
    last = perf_counter()
    with closing(trainer.steps(len(progress.epochs), totals.batches)) as steps:
        for step in steps:
            now = perf_counter()
            totals.add(step, now - last)
            on_step(step)
            last = perf_counter()
    totals.seconds += perf_counter() - last
