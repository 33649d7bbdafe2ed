"""`Ending`: when a training ends, apart from a target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Self

from a3gnn.task import Task
from a3gnn.training.progress import Progress

#: Patience by default: until validation stops improving (`LearningCurve.has_stopped_improving`).
Patience = int | Literal["auto"] | None


class End(StrEnum):
    """Why a training ended."""

    EPOCHS = "epochs"  # the requested epochs were done
    PATIENCE = "patience"  # so many epochs were no better as were requested
    NO_BETTER = "no better"  # validation had stopped improving
    TARGET = "target"  # the target was reached


@dataclass(frozen=True, slots=True)
class Ending:
    """When a training ends, apart from a target.

    Attributes:
        epochs: Most epochs; None for no limit.
        patience: Epochs without a better validation quality after which it ends; None for never; "auto" ends it when
            validation has stopped improving.
        falls: Whether the learning rate falls to 0, so that training is done when it gets there.
    """

    epochs: int | None
    patience: Patience
    falls: bool = False

    @classmethod
    def of(cls, epochs: int | None, patience: Patience, task: Task) -> Self:
        """Returns the ending for `train`'s arguments; a falling learning rate of `task` ends the training by default.

        Its last epochs are the best ones, so "auto" does not end it before.
        """
        if patience is not None and patience != "auto":
            patience = int(patience)
        if task.lr_epochs is None:
            return cls(epochs, patience)
        return cls(task.lr_epochs if epochs is None else epochs, None if patience == "auto" else patience, falls=True)

    @property
    def watches(self) -> bool:
        """Whether it looks for the end of improvement, with evaluations within long epochs, too."""
        return self.patience == "auto"

    def reached(self, progress: Progress, batches_per_epoch: int) -> End | None:
        """Returns why the training ends after the epochs of `progress`, or None if it goes on."""
        done, best = len(progress.epochs), progress.best
        if self.epochs is not None and done >= self.epochs:
            return End.EPOCHS
        if best is None or self.patience is None:
            return None
        if isinstance(self.patience, int):
            return End.PATIENCE if done - best.epoch >= self.patience else None
        return End.NO_BETTER if progress.curve(batches_per_epoch).has_stopped_improving() else None

    def cuts_off(self, progress: Progress, batches_per_epoch: int) -> bool:
        """Whether the limit of epochs has ended the training of `progress` while validation was still improving.

        It was if its last third was better. A falling learning rate has reached its end.
        """
        if self.falls or self.reached(progress, batches_per_epoch) is not End.EPOCHS:
            return False
        return progress.curve(batches_per_epoch).improves_at_its_end()
