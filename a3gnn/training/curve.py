"""`train_curve`: a learning curve, trained from where it is known or from the first mini-batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from torch import Tensor

from a3gnn.errors import UsageError
from a3gnn.learning_curve import NO_CURVE, CurveEnd, LearningCurve, next_point
from a3gnn.training.curve_state import CurveState
from a3gnn.training.save_timer import SaveTimer
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer


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
        first: Mini-batches before the first point, as `a3gnn.training.curve_points.first_point` gives them.
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
