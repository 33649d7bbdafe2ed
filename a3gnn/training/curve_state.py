"""`CurveState`: what a learning curve's training goes on from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from a3gnn.learning_curve import NO_CURVE, LearningCurve
from a3gnn.training.checkpoint import identity, save
from a3gnn.training.trainer import Trainer

CURVE_STATE_VERSION = 1


@dataclass(slots=True)
class CurveState:
    """How far a learning curve has been trained; the weights themselves are the trainer's.

    Attributes:
        batches: Mini-batches trained on, which may lie beyond the curve's last point.
        curve: The points so far.
        best: The weights of the first of its best points, by name; none before the first point.
    """

    batches: int = 0
    curve: LearningCurve = NO_CURVE
    best: dict[str, Tensor] = field(default_factory=dict)

    def add(self, val_accuracy: float, trainer: Trainer) -> None:
        """Ends the curve with a point of `val_accuracy` at the weights of `trainer`.

        Of the best weights there is one copy: later ones are written over it.
        """
        if val_accuracy > max(self.curve.val_accuracy, default=-math.inf):
            for name, tensor in trainer.model.state_dict().items():
                if name in self.best:
                    self.best[name].copy_(tensor)
                else:
                    self.best[name] = tensor.detach().cpu().clone()
        self.curve = self.curve.with_point(self.batches, val_accuracy)

    def write(self, path: Path, trainer: Trainer, first: int) -> None:
        """Writes it with the weights and the optimiser of `trainer` to `path`, whole or not at all.

        Raises:
            A3GNNError: It can't be written, such as when the disk is full; what was there before is as it was.
        """
        save(
            path,
            {
                "identity": _identity(trainer, first),
                "batches": self.batches,
                "curve": self.curve.to_dict(),
                "best": self.best,
                "model": trainer.model.state_dict(),
                "optimizer": trainer.optimizer.state_dict(),
            },
            durable=False,
        )

    @classmethod
    def begin(cls, path: Path | None, trainer: Trainer, first: int, known: LearningCurve) -> CurveState:
        """Returns the state at `path`, which `trainer` is set to, or else a fresh one, as `trainer` then is.

        A file that is missing, damaged, of another training, or of a curve that differs from what is `known` of it
        changes no outcome: training begins anew, and gives the same curve.

        Args:
            path: Of the state; None for a fresh one.
            trainer: Whatever it has trained.
            first: Mini-batches before the curve's first point.
            known: The curve as far as it is known.
        """
        fields = None if path is None else _read(path, _identity(trainer, first))
        if fields is None or not _agree(curve := LearningCurve.from_dict(fields["curve"]), known):
            trainer.restart()
            return cls()
        trainer.model.load_state_dict(fields["model"])
        trainer.optimizer.load_state_dict(fields["optimizer"])
        return cls(fields["batches"], curve, fields["best"])


def _identity(trainer: Trainer, first: int) -> dict[str, Any]:
    """Returns what decides the curve bit for bit, by name."""
    known = identity(trainer.graph, trainer.config, trainer.task)
    return {**known, "curve_state_version": CURVE_STATE_VERSION, "first": first}


def _read(path: Path, known: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the fields of the state at `path`, or None where there is none of this identity."""
    try:
        fields: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return fields if fields["identity"] == known else None
    except Exception:  # torch raises what it likes where a file is missing or damaged
        return None


def _agree(one: LearningCurve, other: LearningCurve) -> bool:
    shared = min(len(one.batches), len(other.batches))
    return (one.batches[:shared], one.val_accuracy[:shared]) == (other.batches[:shared], other.val_accuracy[:shared])
