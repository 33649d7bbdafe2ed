"""`fit` trains and evaluates epoch by epoch; `run` does so with messages, checkpoints and handling of interrupts.

Training ends if enough epochs are done, validation stops improving, or a target is reached.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from types import FrameType, TracebackType
from typing import Self

from a3gnn.errors import GraphServerError, MemoryLimitError, PeerLostError, TrainerError
from a3gnn.learning_curve import next_point
from a3gnn.machine.energy import EnergyMeter
from a3gnn.metric import Metric
from a3gnn.notify import detail
from a3gnn.option_names import call, options
from a3gnn.training.ending import End, Ending
from a3gnn.training.progress import EpochResult, Point, Progress, TargetAccuracy
from a3gnn.training.run_folder import RunFolder
from a3gnn.training.step import EpochWork, Step
from a3gnn.training.trainer import Trainer
from a3gnn.units import count, format_seconds


def fit(
    trainer: Trainer,
    progress: Progress,
    *,
    ending: Ending,
    first: int | None = None,
    target: TargetAccuracy | None = None,
    meter: EnergyMeter | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
    on_epoch: Callable[[EpochResult], None] = lambda result: None,
    on_point: Callable[[Point], None] = lambda point: None,
) -> None:
    """Trains `trainer` from `progress` on and updates both, so that they can be saved whenever this ends.

    Args:
        trainer: In the state of `progress`.
        progress: The run's progress.
        ending: When training ends.
        first: Mini-batches before the first point of the learning curve (`first_point`); needed for a target, and if
            `ending` watches.
        target: Until it is reached and kept, validation is evaluated at the points of the learning curve too.
        meter: Measures the energy of training; by default of this machine's processors.
        on_step: Called after each mini-batch, once `progress` includes it.
        on_epoch: Called after each epoch, once `progress` includes it.
        on_point: Called after each point, once `progress` includes it.
    """
    meter = EnergyMeter() if meter is None else meter
    points = _Points(trainer, progress, first, ending.watches, target, meter, on_point)
    while ending.reached(progress, trainer.batches_per_epoch) is None:
        if _train_rest(trainer, progress, points, meter, on_step):
            return
        work = trainer.over_ranks(EpochWork(*progress.under_way.work))
        begin = perf_counter()
        last = progress.points[-1] if progress.points else None
        if last is not None and last.batches == progress.batches(trainer.batches_per_epoch):
            on_epoch(progress.finish_epoch(last.val_accuracy, 0.0, work))
        else:
            accuracy = trainer.validate()
            on_epoch(progress.finish_epoch(accuracy, perf_counter() - begin, work))


@dataclass(slots=True)
class _Points:
    """Evaluates validation at the points of the learning curve."""

    trainer: Trainer  # trains
    progress: Progress  # gets the points
    first: int | None  # mini-batches before the first point; None for no points
    watches: bool  # whether all points within epochs are evaluated, and not only those until the target is kept
    target: TargetAccuracy | None  # the target, if any
    meter: EnergyMeter  # evaluation's energy is discarded from it
    on_point: Callable[[Point], None]  # called after each point
    _seeks: bool = field(init=False)

    def __post_init__(self) -> None:
        self._seeks = self._is_sought()

    def is_at_end(self) -> bool:
        """Evaluates validation if a point is due, and returns whether training ends here because of its target."""
        if self._is_due():
            self._evaluate()
            self._seeks = self._is_sought()
        return self.target is not None and self.target.ends and not self._seeks

    def _is_sought(self) -> bool:
        return self.target is not None and self.progress.settled(self.target.accuracy) is None

    def _is_due(self) -> bool:
        if self.first is None:
            return False
        batches = self.progress.batches(self.trainer.batches_per_epoch)
        if not self._seeks and not (self.watches and batches % self.trainer.batches_per_epoch):
            return False  # the end of an epoch evaluates validation anyway
        due = next_point(self.progress.points[-1].batches if self.progress.points else 0, self.first)
        while due < batches:
            due = next_point(due, self.first)
        return due == batches

    def _evaluate(self) -> None:
        self.progress.under_way.add_joules(self.meter.taken(now=True))
        begin = perf_counter()
        try:
            accuracy = self.trainer.validate()
        finally:
            self.meter.taken(now=True)  # discards evaluation's energy
        trained = self.progress.batches(self.trainer.batches_per_epoch)
        self.on_point(self.progress.add_point(trained, accuracy, perf_counter() - begin))


def _train_rest(
    trainer: Trainer, progress: Progress, points: _Points, meter: EnergyMeter, on_step: Callable[[Step], None]
) -> bool:
    """Trains the rest of the current epoch, and returns whether training ends before the epoch does."""
    meter.taken(now=True)  # discards energy since the last epoch, which is not training's
    if points.is_at_end():  # an interrupted point may still be due
        return True
    totals = progress.under_way
    try:
        last = perf_counter()
        with closing(trainer.steps(len(progress.epochs), totals.batches)) as steps:
            for step in steps:
                now = perf_counter()
                totals.add(step, now - last, meter.taken())
                on_step(step)
                if points.is_at_end():
                    return True
                last = perf_counter()
        totals.seconds += perf_counter() - last
        return False
    finally:
        totals.add_joules(meter.taken(now=True))


class Interrupt:
    """While entered, notes Ctrl-C and SIGTERM instead of raising in the middle of an update; a second signal raises.

    Outside the main thread it does nothing, because Python delivers no signals there.

    Args:
        agreed: Whether other processes must stop at the same mini-batch and read `noted`. Their launcher forwards the
            same signal, so a second signal is ignored.

    Attributes:
        forced: Whether a second signal came; the model may then be in the middle of an update.
        noted: Whether a signal came.
    """

    def __init__(self, *, agreed: bool = False) -> None:
        self.forced = False
        self.noted = False
        self._agreed = agreed
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal was noted; call it while no weights change, such as in evaluation."""
        if self.noted:
            raise KeyboardInterrupt

    def check_step(self) -> None:
        """Raises KeyboardInterrupt if a signal was noted, after a mini-batch; not if other processes must agree."""
        if not self._agreed:
            self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted and not self._agreed:
            self.forced = True
            raise KeyboardInterrupt
        self.noted = True


def run(
    trainer: Trainer,
    folder: RunFolder,
    done: Progress,
    interrupt: Interrupt,
    *,
    ending: Ending,
    first: int | None,
    target: TargetAccuracy | None,
    progress: bool,
    notify: Callable[[str], None],
    meter: EnergyMeter | None = None,
) -> float:
    """Trains to the end, writes model.pt, and returns the quality of its weights on test nodes.

    Afterwards the trainer has these weights. A stop after a mini-batch or between chunks of evaluation leaves a
    checkpoint, and so does the loss of another rank.

    Raises:
        MemoryLimitError: The memory limit was passed. This error and the errors below say how to continue.
        GraphServerError: A graph server can't be reached any more.
        KeyboardInterrupt: Ctrl-C was pressed.
        PeerLostError: Another rank has ended.
        TrainerError: One of several trainers has failed, or does not come back.
    """
    from a3gnn.training.progress_bar import ProgressBar

    lines = _EpochLines(trainer.metric, notify)
    bar = ProgressBar(trainer.batches_per_epoch, ending.epochs, trainer.metric, shown=progress)
    with interrupt, bar, _saving_at_stop(folder, done, interrupt) as trained:

        def on_step(step: Step) -> None:
            bar.advance(step)
            interrupt.check_step()
            folder.save_if_due()

        def on_point(point: Point) -> None:
            if target is not None and done.settled(target.accuracy) is point:
                notify(_reached(done, target, trainer.metric))
            interrupt.check()

        def on_epoch(result: EpochResult) -> None:
            folder.finish_epoch(result)
            bar.finish_epoch(result)
            lines.add(result, trainer.choices, last=ending.reached(done, trainer.batches_per_epoch) is not None)
            interrupt.check()

        train = partial(fit, trainer, done, ending=ending, first=first, target=target, meter=meter)
        train(on_step=on_step, on_epoch=on_epoch, on_point=on_point)
        folder.keep_model(best=not ended_at(target, done))
        trained.set()
        _say_why(trainer, ending, target, done, folder.path, notify)
        return trainer.test()


@contextmanager
def _saving_at_stop(folder: RunFolder, done: Progress, interrupt: Interrupt) -> Iterator[threading.Event]:
    """Saves a checkpoint if its body is stopped before it sets the event that is yielded; errors say how to go on."""
    trained = threading.Event()
    try:
        yield trained
    except (KeyboardInterrupt, MemoryLimitError, GraphServerError, TrainerError) as error:
        if not (trained.is_set() or interrupt.forced):
            folder.save_at_stop()
        raise type(error)(_how_to_go_on(error, done, folder.path)) from error
    except PeerLostError as error:
        saved = not trained.is_set() and folder.save_without_all()
        if not (saved or interrupt.noted):
            raise
        stop = KeyboardInterrupt() if interrupt.noted else error  # the same signal has stopped the others
        if not saved:
            raise stop from error.__cause__  # rank 0 has saved, or reports why not
        raise type(stop)(_how_to_go_on(stop, done, folder.path)) from error


def ended_at(target: TargetAccuracy | None, done: Progress) -> bool:
    """Returns whether training ended because `target` was reached and kept."""
    return target is not None and target.ends and done.settled(target.accuracy) is not None


def why_ended(ending: Ending, target: TargetAccuracy | None, done: Progress, batches_per_epoch: int) -> End:
    """Returns why a finished training ended."""
    if ended_at(target, done):
        return End.TARGET
    end = ending.reached(done, batches_per_epoch)
    assert end is not None, "training has ended"
    return end


def _say_why(
    trainer: Trainer,
    ending: Ending,
    target: TargetAccuracy | None,
    done: Progress,
    folder: Path,
    notify: Callable[[str], None],
) -> None:
    """Passes to `notify` that a target was reached too late to know whether it is kept, and why training ended."""
    end = why_ended(ending, target, done, trainer.batches_per_epoch)
    label, best, epochs = f"validation {trainer.metric.label}", done.best, len(done.epochs)
    if end is End.TARGET or best is None:
        return
    if target is not None and done.reached(target.accuracy) and done.settled(target.accuracy) is None:
        notify(_reached(done, target, trainer.metric))
    if end is End.NO_BETTER:
        notify(f"{label} has not improved since about epoch {best.epoch} of {epochs}, so training ends")
    elif ending.cuts_off(done, trainer.batches_per_epoch):
        more = options(epochs=2 * epochs, out=folder, resume=True)
        notify(
            f"{label} was still improving when the {count(epochs, 'epoch')} ended (best at epoch {best.epoch}); the "
            f"same {call()} with {more} goes on"
        )


def _how_to_go_on(error: BaseException, done: Progress, folder: Path) -> str:
    reason = f"{error}. The run" if str(error) else "the run"
    where = (
        f"after {count(len(done.epochs), 'epoch')} and {count(done.under_way.batches, 'mini-batch', 'mini-batches')}"
    )
    return f"{reason} is saved {where}; the same {call()} with {options(out=folder, resume=True)} goes on from there"


class _EpochLines:
    """Passes a line to `notify` for each epoch; only some are shown without `--verbose`, so that a log stays short.

    These are the epochs 1, 2, 3, 4, 6, 9, 13 and so on of this call, and the last one.
    """

    def __init__(self, metric: Metric, notify: Callable[[str], None]) -> None:
        self._metric, self._notify = metric, notify
        self._done, self._due = 0, 1
        self._choices = set[str]()

    def add(self, result: EpochResult, choices: Iterable[str], *, last: bool) -> None:
        """Passes on new `choices` and the line of the next epoch; `last` says that training ends with it."""
        for choice in choices:
            if choice not in self._choices:
                self._choices.add(choice)
                self._notify(choice)
        self._done += 1
        line = (
            f"epoch {result.epoch:3d}  loss {result.loss:.4f}  val {self._metric.show(result.val_accuracy)}  "
            f"{result.epochs_per_s:.3g} epochs/s"
        )
        if self._done == self._due:
            self._due += max(1, self._due // 2)
            last = True
        self._notify(line if last else detail(line))


def _reached(done: Progress, target: TargetAccuracy, metric: Metric) -> str:
    point = done.reached(target.accuracy)
    assert point is not None, "the target was reached"
    whole = format_seconds(point.train_s + point.eval_s)
    return (
        f"reached {metric.show(target.accuracy)} validation {metric.label} after {point.batches} "
        f"mini-batches: {format_seconds(point.train_s)} of training, {whole} with evaluations"
    )
