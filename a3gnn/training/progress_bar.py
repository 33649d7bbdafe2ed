"""How a run goes, on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from a3gnn.metric import Metric
from a3gnn.training.progress import EpochResult
from a3gnn.training.step import Step


class ProgressBar:
    """The epoch under way, its mini-batches, and the quality so far; a context manager.

    Args:
        batches_per_epoch: Mini-batches of an epoch.
        epochs: Epochs at most.
        metric: Of the quality.
        shown: Whether to draw it at all; on a stderr that is no terminal nothing is drawn either.
    """

    def __init__(self, batches_per_epoch: int, epochs: int, metric: Metric, *, shown: bool) -> None:
        console = Console(stderr=True)
        self._epochs, self._metric = epochs, metric
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._task = self._bar.add_task("", total=batches_per_epoch, note="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, step: Step) -> None:
        """Shows that `step` is done."""
        self._bar.update(self._task, description=f"epoch {step.epoch + 1}/{self._epochs}", completed=step.index + 1)

    def finish_epoch(self, result: EpochResult) -> None:
        """Shows what `result` reached."""
        self._bar.update(self._task, note=f"loss {result.loss:.3f} · val {self._metric.show(result.val_accuracy)}")
