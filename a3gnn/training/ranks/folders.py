"""The run's folder among ranks: rank 0 has it, and tells the others what is in it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from a3gnn.training.checkpoint import restore_checkpoint
from a3gnn.training.progress import EpochResult, Progress
from a3gnn.training.ranks.group import TorchRanks
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
        ranks.bytes_of_first(str(path.absolute()).encode())

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Returns the progress to go on from, as all ranks do."""
        progress = super().begin(trainer, known)
        self._ranks.bytes_of_first(self._checkpoint.read_bytes())
        return progress

    def keep_model(self, *, best: bool) -> None:
        """Writes a last checkpoint and model.pt, whose weights all trainers then have."""
        super().keep_model(best=best)
        written = BytesIO()
        torch.save(self._trainer.model.state_dict(), written)
        self._ranks.bytes_of_first(written.getvalue())

    def save_without_all(self) -> bool:
        """Writes a checkpoint unless another rank does, some having been lost; returns whether this one has."""
        if not self._ranks.claim("checkpoint"):
            return False
        self.save()
        return True


class FollowerFolder(RunFolder):
    """The folder as other ranks see it: they read what rank 0 sends, and write nothing while that one is there.

    Args:
        ranks: Of which one is rank 0.
    """

    def __init__(self, ranks: TorchRanks) -> None:
        path = Path(ranks.bytes_of_first(b"").decode())
        self.path, self._checkpoint, self._ranks = path, path / "checkpoint.pt", ranks

    def begin(self, trainer: Trainer, known: dict[str, Any]) -> Progress:
        """Returns the progress to go on from, `trainer` being at its state.

        Raises:
            ConfigError: What this rank trains is not what rank 0 does.
        """
        self._trainer, self._known = trainer, known
        content = BytesIO(self._ranks.bytes_of_first(b""))
        self._progress = restore_checkpoint(self._checkpoint, trainer, known, content)
        return self._progress

    def save(self) -> None:
        """Does nothing: rank 0 does."""

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

        Without the weights of the best epoch, which rank 0 writes, the last checkpoint stays.
        """
        best = self._best_epoch()
        if not self._ranks.claim("checkpoint") or not (best is None or self._best_path(best).exists()):
            return False
        self._write()
        return True
