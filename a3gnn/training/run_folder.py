"""The folder of a training run: metrics.jsonl, checkpoint.pt, model.pt, result.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.option_names import option
from a3gnn.storage.atomic import write_text
from a3gnn.storage.claim import is_vacant
from a3gnn.training.checkpoint import persist_saved, restore_checkpoint, save, save_checkpoint
from a3gnn.training.progress import EpochResult, Progress
from a3gnn.training.saved_model import SavedModel
from a3gnn.training.trainer import Trainer

#: Seconds between writings at least, and how many times the seconds of one at least. Guesses.
_PERIOD_S, _PERIOD_WRITES = 30.0, 20


class SaveTimer:
    """Spaces writings so that little work is lost where a run is killed, and little time goes into writing."""

    def __init__(self) -> None:
        self._next = perf_counter() + _PERIOD_S

    @property
    def is_due(self) -> bool:
        """Whether the last writing is old."""
        return perf_counter() >= self._next

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While entered, the state is written; the next writing is due the later the longer this one takes."""
        begin = perf_counter()
        yield
        now = perf_counter()
        self._next = now + max(_PERIOD_S, _PERIOD_WRITES * (now - begin))


class MetricsLog:
    """A file that holds one line per epoch and is whole after every epoch.

    Args:
        path: The file.
        results: Epochs that a resumed run has finished; lines of later ones, which will be trained again, are dropped.
    """

    def __init__(self, path: Path, results: Sequence[EpochResult]) -> None:
        self._path = path
        write_text(path, "".join(map(_line, results)))

    def append(self, result: EpochResult) -> None:
        """Adds `result`, on its way to the disk when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(result))


def _line(result: EpochResult) -> str:
    return json.dumps(result.to_dict()) + "\n"


_CHECKPOINT = "checkpoint.pt"


class RunFolder:
    """Writes what a run leaves behind. Killed at any moment, it can be resumed.

    Weights of the best epoch are in a file of that epoch, beside which the one that the last checkpoint knows as best
    is kept until the next checkpoint.

    Args:
        path: The folder.
        resume: Whether a run in it goes on.

    Raises:
        UsageError: It holds a run and `resume` is off, or none and `resume` is on.
        A3GNNError: It can't be made.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self._resume = resume
        self._saved_best: int | None = None
        self._timer = SaveTimer()
        check_run_folder(path, resume=resume)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise A3GNNError(
                f"can't make the folder {path}: {error.strerror}; choose another {option('out')}"
            ) from error

    @property
    def _checkpoint(self) -> Path:
        return self.path / _CHECKPOINT

    @property
    def scratch(self) -> Path | None:
        """Where evaluation keeps what it writes; None for the cache folder."""
        return self.path

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Returns the progress to go on from, `trainer` being at its state; a fresh run saves its first checkpoint.

        Args:
            trainer: A fresh one.
            known: The run's `identity`.
        """
        self._trainer, self._known = trainer, known
        if self._resume:
            self._progress = restore_checkpoint(self._checkpoint, trainer, known)
            self._saved_best = self._best_epoch()
        else:
            self._progress = Progress()
            self.save()
        self._log = MetricsLog(self.path / "metrics.jsonl", self._progress.epochs)
        return self._progress

    def save(self) -> None:
        """Writes a checkpoint."""
        with self._timer.writing():
            self._write()
        self._saved_best = self._best_epoch()
        self._drop_best_but(self._saved_best)

    def save_at_stop(self) -> None:
        """Writes a checkpoint as the run stops early."""
        self.save()

    def save_without_all(self) -> bool:
        """Writes a checkpoint unless another rank does, some having been lost; returns whether this one has."""
        return False  # there are no others

    def save_if_due(self) -> None:
        """Writes a checkpoint if the last one is old."""
        if self._timer.is_due and self._trainer.ready_to_save():
            self.save()

    def finish_epoch(self, result: EpochResult) -> None:
        """Logs `result`, and keeps the weights if they are the best so far."""
        if result.epoch == self._best_epoch():
            save(self._best_path(result.epoch), self._trainer.model.state_dict(), durable=False)
            self._drop_best_but(result.epoch, self._saved_best)
        self._log.append(result)

    def keep_model(self, *, best: bool) -> None:
        """Writes a last checkpoint and model.pt, whose weights the trainer then has.

        Args:
            best: Whether these are the best epoch's; if not, they are those that the trainer has now.
        """
        self.save()
        trainer = self._trainer
        if best:
            epoch = self._best_epoch()
            assert epoch is not None
            trainer.model.load_state_dict(torch.load(self._best_path(epoch), map_location="cpu", weights_only=True))
        SavedModel.of(trainer.model, trainer.task, trainer.graph).write(self.path / "model.pt")

    def finish(self, result: dict[str, Any]) -> None:
        """Writes `result` as result.json."""
        write_text(self.path / "result.json", json.dumps(result, indent=2) + "\n")

    def _write(self) -> None:
        best = self._best_epoch()
        if best is not None:  # before the checkpoint that needs it
            persist_saved(self._best_path(best))
        save_checkpoint(self._checkpoint, self._trainer, self._progress, self._known)

    def _best_epoch(self) -> int | None:
        best = self._progress.best
        return None if best is None else best.epoch

    def _best_path(self, epoch: int) -> Path:
        return self.path / f"best-{epoch}.pt"

    def _drop_best_but(self, *epochs: int | None) -> None:
        kept = {self._best_path(epoch) for epoch in epochs if epoch is not None}
        for path in self.path.glob("best-*.pt"):
            if path not in kept:
                path.unlink()


def check_run_folder(path: Path, *, resume: bool) -> None:
    """Checks that a run can begin in the folder `path`, or go on there; makes nothing.

    Raises:
        UsageError: It holds a run and `resume` is off, or none and `resume` is on.
    """
    if resume and not (path / _CHECKPOINT).is_file():
        raise UsageError(
            f"{option('resume')} needs a run in {path}, which has no {_CHECKPOINT}; leave it out to start one"
        )
    if not resume and not is_vacant(path):
        raise UsageError(
            f"{option('out', path)} must be a new or empty folder; add {option('resume', True)} to go on with the "
            "run in it"
        )
