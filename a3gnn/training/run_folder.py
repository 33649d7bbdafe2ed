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

_CHECKPOINT = "checkpoint.pt"
#: Least time between writes, in seconds, and as a multiple of a write's duration: a killed run loses half a minute, and
#: writes take a twentieth of the time.
_PERIOD_S, _PERIOD_WRITES = 30.0, 20


class RunFolder:
    """Writes a run's files. A run can be resumed, even if it is killed at any moment.

    Weights of the best epoch are in a file of that epoch. The file of the last checkpoint's best epoch is kept until
    the next checkpoint.

    Args:
        path: The folder.
        resume: Whether to continue a run in it.

    Raises:
        UsageError: The folder contains a run and `resume` is off, or no run and `resume` is on.
        A3GNNError: The folder can't be made.
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
        """Folder for evaluation's temporary files; None for the cache folder."""
        return self.path

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Sets `trainer` to the state to continue from, and returns its progress; a new run saves a first checkpoint.

        Args:
            trainer: A fresh trainer.
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
        """After ranks were lost, writes a checkpoint unless another rank does; returns whether this one has."""
        return False  # there are no others

    def save_if_due(self) -> None:
        """Writes a checkpoint if the last one is old."""
        if self._timer.is_due and self._trainer.ready_to_save():
            self.save()

    def finish_epoch(self, result: EpochResult) -> None:
        """Logs `result`, and saves the weights if they are the best so far."""
        if result.epoch == self._best_epoch():
            save(self._best_path(result.epoch), self._trainer.model.state_dict(), durable=False)
            self._drop_best_but(result.epoch, self._saved_best)
        self._log.append(result)

    def keep_model(self, *, best: bool) -> None:
        """Writes a last checkpoint and model.pt, and sets the trainer to its weights.

        Args:
            best: Whether model.pt gets the best epoch's weights; if not, it gets the trainer's current weights.
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
    """Checks that a run can start in the folder `path`, or continue there; writes nothing.

    Raises:
        UsageError: The folder is not empty and `resume` is off, or contains no run and `resume` is on.
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


class SaveTimer:
    """Spaces writes so that a killed run loses little work, and little time goes into writing."""

    def __init__(self) -> None:
        self._next = perf_counter() + _PERIOD_S

    @property
    def is_due(self) -> bool:
        """Whether the next write is due."""
        return perf_counter() >= self._next

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Times the write within this context; the longer it takes, the later the next one is due."""
        begin = perf_counter()
        yield
        now = perf_counter()
        self._next = now + max(_PERIOD_S, _PERIOD_WRITES * (now - begin))


class MetricsLog:
    """A file with one line per epoch, complete after every epoch.

    Args:
        path: The file.
        results: Epochs that a resumed run has finished. Lines of later epochs, which will be trained again, are
            dropped.
    """

    def __init__(self, path: Path, results: Sequence[EpochResult]) -> None:
        self._path = path
        write_text(path, "".join(map(_line, results)))

    def append(self, result: EpochResult) -> None:
        """Appends `result`, without waiting for the disk."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(result))


def _line(result: EpochResult) -> str:
    return json.dumps(result.to_dict()) + "\n"
