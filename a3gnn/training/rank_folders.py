"""The run's folder among ranks: rank 0 has it, and tells the others what is in it."""

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
        resume: Whether a run in it goes on.
        ranks: Who read what is in it.

    Raises:
        UsageError: As of `RunFolder`.
        A3GNNError: Likewise.
    """

    def __init__(self, path: Path, *, resume: bool, ranks: TorchRanks) -> None:
        super().__init__(path, resume=resume)
        self._ranks = ranks
        self._turn = uuid4().hex  # claimed once per run: a group may be there for several
        ranks.bytes_of_first(os.fsencode(f"{self._turn}{path.absolute()}"))

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Returns the progress to go on from, as all ranks do."""
        progress = super().begin(trainer, known)
        self._ranks.bytes_of_first(self._checkpoint.read_bytes())
        progress.under_way.forget_work()
        return progress

    def keep_model(self, *, best: bool) -> None:
        """Writes a last checkpoint and model.pt, whose weights all trainers then have."""
        super().keep_model(best=best)
        written = BytesIO()
        torch.save(self._trainer.model.state_dict(), written)
        self._ranks.bytes_of_first(written.getvalue())

    def save_without_all(self) -> bool:
        """Writes a checkpoint unless another rank does, some having been lost; returns whether this one has.

        Where those that are lost had a part of the weights, nothing is written: the last checkpoint stays.
        """
        if not (self._trainer.ready_to_save() and self._ranks.claim(self._turn)):
            return False
        self.save()
        return True

    def save_at_stop(self) -> None:
        """Writes a checkpoint likewise: some may have stopped before the others, which then lose them."""
        self.save_without_all()


class FollowerFolder(RunFolder):
    """The folder as other ranks see it: they read what rank 0 sends, and write nothing while that one is there.

    Args:
        ranks: Of which one is rank 0.
    """

    def __init__(self, ranks: TorchRanks) -> None:
        told, length = os.fsdecode(ranks.bytes_of_first(b"")), len(uuid4().hex)
        self._turn, self.path, self._ranks = told[:length], Path(told[length:]), ranks

    @property
    def scratch(self) -> None:
        """By default in the cache folder: rank 0's path may be of another machine."""
        return

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Returns the progress to go on from, `trainer` being at its state.

        Raises:
            ConfigError: What this rank trains is not what rank 0 does.
        """
        self._trainer, self._known = trainer, known
        content = BytesIO(self._ranks.bytes_of_first(b""))
        self._progress = restore_checkpoint(self._checkpoint, trainer, known, content)
        self._progress.under_way.forget_work()
        return self._progress

    def save(self) -> None:
        """Does nothing: rank 0 does."""

    def save_at_stop(self) -> None:
        """Likewise."""

    def save_if_due(self) -> None:
        """Likewise."""

    def finish_epoch(self, result: EpochResult) -> None:
        """Likewise."""

    def finish(self, result: dict[str, Any]) -> None:
        """Likewise."""

    def keep_model(self, *, best: bool) -> None:
        """Gives the trainer the weights that rank 0 has kept."""
        content = BytesIO(self._ranks.bytes_of_first(b""))
        self._trainer.model.load_state_dict(torch.load(content, map_location="cpu", weights_only=True))

    def save_without_all(self) -> bool:
        """Writes a checkpoint unless another rank does, some having been lost; returns whether this one has.

        Where this machine doesn't see rank 0's folder, or that one hasn't written the weights of the best epoch yet,
        it is left to others: nothing is claimed.
        """
        best = self._best_epoch()
        read = [self._checkpoint] if best is None else [self._checkpoint, self._best_path(best)]
        there = all(path.is_file() for path in read) and self._trainer.ready_to_save()
        if not (there and self._ranks.claim(self._turn)):
            return False
        self._write()
        return True
