"""`train_curve`: a learning curve, trained from where it is known or from the first mini-batch."""

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

#: Training up to the first point costs so many evaluations; between later ones it costs three times as many
#: (`a3gnn.learning_curve.next_point`): four would make evaluation a fifth of both, and costs are estimates, off by up
#: to a half.
_SPACING = 2
#: Mini-batches whose mean cost stands for all.
_SAMPLED = 4


def first_point(trainer: Trainer) -> int:
    """Returns the mini-batches before a curve's first point, >= 1: those that cost as much as two evaluations.

    Costs are counted from shapes (`a3gnn.models.layers.layer`), never timed: the graph, the task and the learning key
    decide the count, and so where the curve's points lie (`a3gnn.learning_curve.next_point`).

    Args:
        trainer: Of the graph, the task, and any configuration with the learning key.
    """
    cost = fmean(trainer.cost(subgraph) for subgraph in trainer.first_samples(_SAMPLED))
    return max(1, math.ceil(_SPACING * trainer.validation_cost / cost))


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


@dataclass(frozen=True, slots=True)
class CurveTraining:
    """What a call of `train_curve` did.

    Attributes:
        curve: All that is now known of it, and why it ends there.
        train_seconds: What training took in this call.
        eval_seconds: What evaluating new points took in this call.
        best: The weights of the best point, on the host, by name; empty where the curve has none, or where nothing was
            trained and no state tells them.
    """

    curve: LearningCurve
    train_seconds: float
    eval_seconds: float
    best: Mapping[str, Tensor]

    def test_accuracy(self, trainer: Trainer) -> float | None:
        """Returns the quality on test nodes at the best point, whose weights `trainer` then has; None without one."""
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
    """Trains a learning curve until `should_end` says why it ends, and evaluates validation at each of its points.

    Bit-equal whether it is trained at once or extended in pieces, and whatever the mode, workers and tier, unless
    `resources` is auto. Points that are known are not evaluated again. The state is written at the end, and whenever
    the last one is old: what kills the process loses half a minute of training.

    Args:
        trainer: Whatever it has trained: its weights and optimiser are set to the state's, or to fresh ones. Where
            nothing is trained they are left anywhere.
        curve: What is known of it; None for nothing.
        first: Mini-batches before the first point, as `a3gnn.training.curve.first_point` gives them.
        should_end: Asked before the first new point and after each one, with the curve so far (whose `ended` means
            nothing) and the count of mini-batches of the next point: why it ends there, or None to go on.
        state: The file of the state that extends the curve, which is written anew; None keeps none. One that is
            missing or of another curve is not used: the curve is trained from its start.
        whole: Whether it is trained from its start whatever is known, every point evaluated.

    Raises:
        UsageError: `curve` is not of this grid.
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
    return CurveTraining(dataclasses.replace(known, ended=ended), run.train_seconds, run.eval_seconds, best)


class _Run:
    """A training under way: mini-batches over the ends of epochs, points, and the state's file."""

    def __init__(self, trainer: Trainer, first: int, path: Path | None, state: CurveState) -> None:
        self.state = state
        self.train_seconds = self.eval_seconds = 0.0
        self._trainer, self._first, self._path = trainer, first, path
        self._timer = SaveTimer()
        self._saved = state.batches
        self._steps = _steps(trainer, state.batches)

    def extend(self, known: LearningCurve) -> None:
        """Trains to the next point and adds it; its accuracy is looked up where the point is `known`."""
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
        accuracy = known.val_accuracy[place] if place < len(known.batches) else self._trainer.validate()
        self.eval_seconds += perf_counter() - begin
        self.state.add(accuracy, self._trainer)

    def save(self) -> None:
        """Writes the state, if it is kept and has come further than what is written."""
        if self._path is None or self._saved == self.state.batches:
            return
        with self._timer.writing():
            self.state.write(self._path, self._trainer, self._first)
        self._saved = self.state.batches

    def close(self) -> None:
        """Ends the epoch under way, and its threads."""
        self._steps.close()


def _steps(trainer: Trainer, batches: int) -> Generator[Step, None, None]:
    """Trains from the state after `batches` mini-batches on, epoch after epoch, and yields after each mini-batch."""
    while True:
        epoch, start = divmod(batches, trainer.batches_per_epoch)
        with closing(trainer.steps(epoch, start)) as steps:
            for step in steps:
                batches += 1
                yield step
