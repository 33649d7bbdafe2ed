"""`ProgressBar`: a run's progress on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from a3gnn.metric import Metric
from a3gnn.training.progress import EpochResult
from a3gnn.training.step import Step


class ProgressBar:
    """Shows the current epoch, its mini-batches, and the quality so far; a context manager.

    Args:
        batches_per_epoch: Mini-batches of an epoch.
        epochs: Most epochs; None for no limit.
        metric: The metric of the quality.
        shown: Whether to draw it. It is never drawn if stderr is not a terminal.
    """

    def __init__(self, batches_per_epoch: int, epochs: int | None, metric: Metric, *, shown: bool) -> None:
        console = Console(stderr=True)
        self._of, self._metric = "" if epochs is None else f"/{epochs}", metric
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
        self._bar.update(self._task, description=f"epoch {step.epoch + 1}{self._of}", completed=step.index + 1)

    def finish_epoch(self, result: EpochResult) -> None:
        """Shows the loss and the quality of `result`."""
        self._bar.update(self._task, note=f"loss {result.loss:.3f} · val {self._metric.show(result.val_accuracy)}")
