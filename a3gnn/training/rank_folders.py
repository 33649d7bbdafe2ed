"""The run's folder with several ranks: rank 0 has it, and sends the others its content."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from a3gnn.ranks.group import TorchRanks
from a3gnn.training.checkpoint import restore_checkpoint
from a3gnn.training.progress import EpochResult, Progress
from a3gnn.training.run_folder import RunFolder
from a3gnn.training.trainer import Trainer


class LeaderFolder(RunFolder):
    """The folder of rank 0; see `RunFolder`.

    Args:
        path: The folder.
        resume: Whether to continue a run in it.
        ranks: The ranks that receive its content.

    Raises:
        UsageError: See `RunFolder`.
        A3GNNError: See `RunFolder`.
    """

    def __init__(self, path: Path, *, resume: bool, ranks: TorchRanks) -> None:
        super().__init__(path, resume=resume)
        self._ranks = ranks
        self._turn = uuid4().hex  # claimed once per run, because a group may serve several runs
        ranks.bytes_of_first(os.fsencode(f"{self._turn}{path.absolute()}"))

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Returns the progress to continue from, the same on all ranks."""
        progress = super().begin(trainer, known)
        self._ranks.bytes_of_first(self._checkpoint.read_bytes())
        progress.under_way.forget_work()
        return progress

    def keep_model(self, *, best: bool) -> None:
        """Writes a last checkpoint and model.pt, and sets all trainers to its weights."""
        super().keep_model(best=best)
        written = BytesIO()
        torch.save(self._trainer.model.state_dict(), written)
        self._ranks.bytes_of_first(written.getvalue())

    def save_without_all(self) -> bool:
        """After ranks were lost, writes a checkpoint unless another rank does; returns whether this one has.

        If the lost ranks had a part of the weights, nothing is written, and the last checkpoint stays.
        """
        if not (self._trainer.ready_to_save() and self._ranks.claim(self._turn)):
            return False
        self.save()
        return True

    def save_at_stop(self) -> None:
        """Writes a checkpoint as `save_without_all`, because other ranks may have lost those that stopped earlier."""
        self.save_without_all()


class FollowerFolder(RunFolder):
    """The folder on other ranks: they receive its content from rank 0, and write nothing while rank 0 runs.

    Args:
        ranks: All ranks, including rank 0.
    """

    def __init__(self, ranks: TorchRanks) -> None:
        told, length = os.fsdecode(ranks.bytes_of_first(b"")), len(uuid4().hex)
        self._turn, self.path, self._ranks = told[:length], Path(told[length:]), ranks

    @property
    def scratch(self) -> None:
        """None, for the cache folder, because rank 0's path may be on another machine."""
        return

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Sets `trainer` to the state to continue from, and returns its progress.

        Raises:
            ConfigError: This rank trains something else than rank 0.
        """
        self._trainer, self._known = trainer, known
        content = BytesIO(self._ranks.bytes_of_first(b""))
        self._progress = restore_checkpoint(self._checkpoint, trainer, known, content)
        self._progress.under_way.forget_work()
        return self._progress

    def save(self) -> None:
        """Does nothing: rank 0 saves."""

    def save_at_stop(self) -> None:
        """Does nothing: rank 0 saves."""

    def save_if_due(self) -> None:
        """Does nothing: rank 0 saves."""

    def finish_epoch(self, result: EpochResult) -> None:
        """Does nothing: rank 0 logs the result."""

    def finish(self, result: dict[str, Any]) -> None:
        """Does nothing: rank 0 writes the result."""

    def keep_model(self, *, best: bool) -> None:
        """Sets the trainer to the weights of rank 0's model.pt."""
        content = BytesIO(self._ranks.bytes_of_first(b""))
        self._trainer.model.load_state_dict(torch.load(content, map_location="cpu", weights_only=True))

    def save_without_all(self) -> bool:
        """After ranks were lost, writes a checkpoint unless another rank does; returns whether this one has.

        If this machine doesn't see rank 0's folder, or the weights of the best epoch are not in it yet, this rank
        leaves the checkpoint to others.
        """
        best = self._best_epoch()
        read = [self._checkpoint] if best is None else [self._checkpoint, self._best_path(best)]
        there = all(path.is_file() for path in read) and self._trainer.ready_to_save()
        if not (there and self._ranks.claim(self._turn)):
            return False
        self._write()
        return True
