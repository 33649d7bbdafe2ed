"""`train_curve`: trains a learning curve, from a saved state or from the first mini-batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from a3gnn.errors import UsageError
from a3gnn.learning_curve import NO_CURVE, CurveEnd, LearningCurve, next_point
from a3gnn.training.checkpoint import identity, save
from a3gnn.training.run_folder import SaveTimer
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer

CURVE_STATE_VERSION = 1
#: Cost of training up to the first point, in evaluations. Between later points it is three times as much
#: (`a3gnn.learning_curve.next_point`): four evaluations would make evaluation a fifth of the total, and costs are
#: estimates, off by up to a half.
_SPACING = 2
#: Mini-batches to estimate the mean cost from.
_SAMPLED = 4


@dataclass(slots=True)
class CurveState:
    """The state of a learning curve's training; the trainer has the current weights.

    Attributes:
        batches: Mini-batches trained on; may be beyond the curve's last point.
        curve: The points so far.
        best: The weights of the best point, the first of several, by name; empty before the first point.
    """

    batches: int = 0
    curve: LearningCurve = NO_CURVE
    best: dict[str, Tensor] = field(default_factory=dict)

    def add(self, val_accuracy: float, trainer: Trainer) -> None:
        """Appends a point of `val_accuracy` at the weights of `trainer`.

        There is only one copy of the best weights; later ones overwrite it.
        """
        if val_accuracy > max(self.curve.val_accuracy, default=-math.inf):
            for name, tensor in trainer.model.state_dict().items():
                if name in self.best:
                    self.best[name].copy_(tensor)
                else:
                    self.best[name] = tensor.detach().cpu().clone()
        self.curve = self.curve.with_point(self.batches, val_accuracy)

    def write(self, path: Path, trainer: Trainer, first: int) -> None:
        """Writes the state, and the weights and the optimizer of `trainer`, to `path`, atomically.

        Raises:
            A3GNNError: The file can't be written, for example because the disk is full. An existing file is unchanged.
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
        """Sets `trainer` to the state at `path` and returns the state, or restarts `trainer` with a fresh state.

        A file is ignored if it is missing, damaged, of another training, or contradicts the `known` points. This
        changes no outcome: training starts anew and gives the same curve.

        Args:
            path: The state's file; None for a fresh state.
            trainer: In any state.
            first: Mini-batches before the curve's first point.
            known: The known part of the curve.
        """
        fields = None if path is None else _read(path, _identity(trainer, first))
        if fields is None or not _agree(curve := LearningCurve.from_dict(fields["curve"]), known):
            trainer.restart()
            return cls()
        trainer.model.load_state_dict(fields["model"])
        trainer.optimizer.load_state_dict(fields["optimizer"])
        return cls(fields["batches"], curve, fields["best"])


@dataclass(frozen=True, slots=True)
class CurveTraining:
    """The result of `train_curve`.

    Attributes:
        curve: All known points, and why the curve ends there.
        train_seconds: Seconds of training in this call.
        eval_seconds: Seconds of evaluating new points in this call.
        evaluations: Points evaluated in this call.
        best: The weights of the best point, on the host, by name. Empty if the curve has no points, or if nothing was
            trained and no state contains them.
    """

    curve: LearningCurve
    train_seconds: float
    eval_seconds: float
    evaluations: int
    best: Mapping[str, Tensor]

    def test_accuracy(self, trainer: Trainer) -> float | None:
        """Sets `trainer` to the best point's weights and returns their quality on test nodes; None without weights."""
        if not self.best:
            return None
        trainer.model.load_state_dict(self.best)
        return trainer.test()


def train_curve(
    trainer: Trainer,
    curve: LearningCurve | None,
    *,
    first: int,
    should_end: Callable[[LearningCurve, int], CurveEnd | None],
    state: Path | None,
    whole: bool = False,
) -> CurveTraining:
    """Trains a learning curve until `should_end` returns a reason, and evaluates validation at each of its points.

    The curve is bit-equal whether it is trained at once or in pieces, and for any mode, workers and tier, unless
    `resources` is auto. Known points are not evaluated again. The state is written at the end, and whenever the last
    write is old, so that a killed process loses half a minute of training.

    Args:
        trainer: In any state: its weights and optimizer are set to the saved state, or to fresh ones. If nothing is
            trained, its final state is undefined.
        curve: The known part of the curve; None for nothing.
        first: Mini-batches before the first point, from `first_point`.
        should_end: Called before the first new point and after each one, with the curve so far (without a valid
            `ended`) and the mini-batches of the next point. Returns why the curve ends, or None to continue.
        state: The file with the state to continue from; it is overwritten. None stores no state. A missing file, or
            one of another curve, is ignored: the curve is trained from its start.
        whole: Whether to ignore all known points and train from the start.

    Raises:
        UsageError: `curve` has another first point than `first`.
        MemoryLimitError: The trainer's limit was passed.
        A3GNNError: The loss is not finite, or the state can't be written.
    """
    known = NO_CURVE if curve is None or whole else curve
    if known.batches and known.batches[0] != first:
        raise UsageError(f"the curve's first point must be at {first} mini-batches, got {known.batches[0]}; pass None")
    run = _Run(trainer, first, state, CurveState.begin(None if whole else state, trainer, first, known))
    if run.state.curve.trained > known.trained:
        known = run.state.curve
    with closing(run):
        while (ended := should_end(known, due := next_point(known.trained, first))) is None:
            while run.state.curve.trained < due:
                run.extend(known)
            known = run.state.curve
        run.save()
    best = run.state.best if run.state.curve.trained == known.trained else {}
    curve = dataclasses.replace(known, ended=ended)
    return CurveTraining(curve, run.train_seconds, run.eval_seconds, run.evaluations, best)


def first_point(trainer: Trainer) -> int:
    """Returns the mini-batches before a curve's first point, >= 1; they cost as much as two evaluations.

    Costs are counted from shapes (`a3gnn.models.layers.layer`), never timed. So the number, and with it the curve's
    points (`a3gnn.learning_curve.next_point`), depends only on the graph, the task and the learning key.

    Args:
        trainer: A trainer with the graph, the task, and any configuration with the learning key.
    """
    cost = fmean(trainer.cost(subgraph) for subgraph in trainer.first_samples(_SAMPLED))
    return max(1, math.ceil(_SPACING * trainer.validation_cost / cost))


class _Run:
    """A running training of a curve: mini-batches across epochs, points, and the state's file."""

    def __init__(self, trainer: Trainer, first: int, path: Path | None, state: CurveState) -> None:
        self.state = state
        self.train_seconds = self.eval_seconds = 0.0
        self.evaluations = 0
        self._trainer, self._first, self._path = trainer, first, path
        self._timer = SaveTimer()
        self._saved = state.batches
        self._steps = _steps(trainer, state.batches)

    def extend(self, known: LearningCurve) -> None:
        """Trains to the next point and adds it; looks up its accuracy if the point is `known`."""
        point = next_point(self.state.curve.trained, self._first)
        while self.state.batches < point:
            begin = perf_counter()
            next(self._steps)
            self.state.batches += 1
            self.train_seconds += perf_counter() - begin
            if self._timer.is_due:
                self.save()
        begin = perf_counter()
        place = len(self.state.curve.batches)
        if place < len(known.batches):
            accuracy = known.val_accuracy[place]
        else:
            accuracy = self._trainer.validate()
            self.evaluations += 1
        self.eval_seconds += perf_counter() - begin
        self.state.add(accuracy, self._trainer)

    def save(self) -> None:
        """Writes the state, if it has a file and has changed since the last write."""
        if self._path is None or self._saved == self.state.batches:
            return
        with self._timer.writing():
            self.state.write(self._path, self._trainer, self._first)
        self._saved = self.state.batches

    def close(self) -> None:
        """Ends the current epoch and its threads."""
        self._steps.close()


def _steps(trainer: Trainer, batches: int) -> Generator[Step, None, None]:
    """Trains epoch after epoch, starting after `batches` mini-batches, and yields after each mini-batch."""
    while True:
        epoch, start = divmod(batches, trainer.batches_per_epoch)
        with closing(trainer.steps(epoch, start)) as steps:
            for step in steps:
                batches += 1
                yield step


def _identity(trainer: Trainer, first: int) -> dict[str, Any]:
    """Returns the values, by name, that determine the curve bit for bit."""
    known = identity(trainer.graph, trainer.config, trainer.task)
    return {**known, "curve_state_version": CURVE_STATE_VERSION, "first": first}


def _read(path: Path, known: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the fields of the state at `path`, or None if there is none with this identity."""
    try:
        fields: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return fields if fields["identity"] == known else None
    except Exception:  # torch raises various errors for a missing or damaged file
        return None


def _agree(one: LearningCurve, other: LearningCurve) -> bool:
    shared = min(len(one.batches), len(other.batches))
    return (one.batches[:shared], one.val_accuracy[:shared]) == (other.batches[:shared], other.val_accuracy[:shared])
