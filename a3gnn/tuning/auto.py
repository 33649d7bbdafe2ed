"""`train_auto`: trains the baseline until its end can be foreseen, tunes for a share of that, and trains the choice."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.metric import AUTO, checked_metric
from a3gnn.models.own.factory import model_name
from a3gnn.notify import detail, listener
from a3gnn.option_names import call, option, options
from a3gnn.storage.atomic import write_text
from a3gnn.storage.claim import claimed, claimed_next, is_vacant
from a3gnn.task import Task
from a3gnn.training.checkpoint import saved_progress
from a3gnn.training.ending import End
from a3gnn.training.result import TrainResult
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.foresight import expected_stop
from a3gnn.tuning.tune import tune
from a3gnn.units import count, format_duration

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike

#: Share of the baseline's expected seconds that the tune takes. A choice that is 1.5 times as fast then makes up for
#: it, with the seconds of the baseline until it is foreseen. Guess.
SHARE = 1 / 3
#: A tune of fewer seconds has few trials: one of a minute had five (`docs/start/tutorial.md`). Guess.
LEAST_S = 60.0
#: Share of the expected seconds that the baseline must have trained for: first points say little of the end. Guess.
_SEEN = 1 / 30
#: Least seconds between two looks at the baseline's curve. Each look opens the training anew, in about a second. Guess.
_LOOK_S = 5.0
_STATE = "auto.json"


@dataclass(frozen=True, slots=True)
class AutoState:
    """What `auto.json` contains: what is decided, and the seconds so far, by the clock.

    Attributes:
        baseline_s: Seconds of the baseline's training until it was foreseen.
        expected_s: The seconds that the baseline's whole training is expected to take, evaluations included; None
            before that is foreseen.
        tunes: Whether a tune pays; None before that is decided.
        tune_s: Seconds of the tune.
        train_s: Seconds of the last training: of the choice, or of the baseline from where it was left.
    """

    baseline_s: float = 0.0
    expected_s: float | None = None
    tunes: bool | None = None
    tune_s: float = 0.0
    train_s: float = 0.0

    @property
    def budget_s(self) -> float:
        """Seconds of the tune."""
        return 0.0 if self.expected_s is None else SHARE * self.expected_s

    @property
    def total_s(self) -> float:
        """All seconds so far."""
        return self.baseline_s + self.tune_s + self.train_s

    def write(self, folder: Path) -> None:
        """Writes the state into `folder`."""
        write_text(folder / _STATE, json.dumps(self.to_dict(), indent=2) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and their total as JSON types."""
        return dataclasses.asdict(self) | {"total_s": self.total_s}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Returns the state in `folder`; that of the start without one."""
        path = folder / _STATE
        if not path.exists():
            return cls()
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{field.name: fields[field.name] for field in dataclasses.fields(cls)})


@dataclass(frozen=True, slots=True)
class AutoResult:
    """The result of `train_auto`.

    Attributes:
        trained: The training with the choice; its folder has the model.
        tuned: The tune's choice; None if the baseline was trained.
        state: The decisions, and the seconds of each part.
    """

    trained: TrainResult
    tuned: TunedConfig | None
    state: AutoState

    def to_dict(self) -> dict[str, Any]:
        """Returns the result of the training, with the state as `auto`."""
        return self.trained.to_dict() | {"auto": self.state.to_dict()}

    def describe(self) -> str:
        """Returns the seconds of each part, beside those that the baseline was expected to take."""
        state = self.state
        if not state.tunes:
            return f"{format_duration(state.total_s)} in all, all of them training of the baseline"
        assert state.expected_s is not None, "or nothing would have been tuned"
        parts = f"baseline {format_duration(state.baseline_s)}, tune {format_duration(state.tune_s)}"
        return (
            f"{format_duration(state.total_s)} in all: {parts}, training {format_duration(state.train_s)}; the "
            f"baseline alone was expected to take {format_duration(state.expected_s)}"
        )


def train_auto(
    dataset: GraphLike,
    *,
    model: str | Callable[[int, int], Any] | None = None,
    task: Task | None = None,
    metric: str | None = None,
    host_memory_limit: str | int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    split: str | None = None,
    split_seed: int = 0,
    progress: bool = False,
    notify: Callable[[str], None] | None = None,
) -> AutoResult:
    """Tunes if that pays within one training, and trains until validation stops improving.

    The baseline trains first, until its learning curve says when it is expected to stop improving. A tune with a third
    of these seconds follows, if they are a minute or more, and then the training of its choice. If no tune pays, or
    nothing gains over the baseline, the baseline's training goes on from its checkpoint.

    Args:
        dataset: A graph, or any argument of `tune`.
        model: Replaces the task's model, as in `tune`.
        task: The task; the default one without.
        metric: As in `tune`.
        host_memory_limit: Limit on host memory of the tune and the trainings.
        out: A new folder for the trainings (`baseline`, `choice`), the tune (`tune`) and `auto.json`; by default
            runs/auto-GRAPH.
        resume: Whether to go on with the run in `out`.
        split: As in `tune`.
        split_seed: As in `tune`.
        progress: Whether to draw a progress bar of the last training.
        notify: Takes each line of progress; by default they are printed.

    Raises:
        UsageError: An option has a wrong value, or `out` is not empty and `resume` is off.
        KeyboardInterrupt: By Ctrl-C; the same call with `resume` goes on.
    """
    notify, asked = listener(notify), checked_metric(metric)
    given = AUTO if asked is None and task is None else asked
    if model is not None:
        task = (task or Task()).with_model(model_name(model))
    with ExitStack() as stack:
        graph = as_graph(dataset, Split.of(split, split_seed)).on_disk()
        if out is None:
            folder = stack.enter_context(claimed_next(f"auto-{graph.name}", notify))
        else:
            folder = Path(out)
            if not resume and not is_vacant(folder):
                raise UsageError(f"{option('out', folder)} must be a new or empty folder; add {option('resume', True)}")
            stack.enter_context(claimed(folder, notify))
        judged = with_metric(task or Task(), given, graph, notify)
        run = _Auto(graph, judged, folder, host_memory_limit, progress, notify)
        try:
            return run.whole()
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(
                f"what was done is kept; the same {call()} with {options(out=folder, resume=True)} goes on"
            ) from interrupt


class _Auto:
    """One run, which can be continued from its folder."""

    def __init__(
        self,
        graph: Graph,
        task: Task,
        folder: Path,
        limit: str | int | None,
        progress: bool,
        notify: Callable[[str], None],
    ) -> None:
        self._graph, self._task, self._folder = graph, task, folder
        self._limit, self._progress, self._notify = limit, progress, notify
        self._state = AutoState.read(folder)

    def whole(self) -> AutoResult:
        """Runs what is left, and returns the result."""
        if self._state.tunes is None:
            with self._timed("baseline_s"):
                self._foresee()
        tuned = self._tuned() if self._state.tunes else None
        with self._timed("train_s"):
            folder = self._folder / ("baseline" if tuned is None else "choice")
            trained = self._train(tuned or TrainConfig(), folder, notify=self._notify, progress=self._progress)
        return AutoResult(trained, tuned, self._state)

    def _foresee(self) -> None:
        """Trains the baseline until a tune is found to pay, or its training ends."""
        folder, epochs = self._folder / "baseline", 1
        if (folder / "checkpoint.pt").exists():
            epochs = max(1, len(saved_progress(folder).epochs))
        while self._state.tunes is None:
            result = self._train(
                TrainConfig(), folder, epochs=epochs, notify=lambda line: self._notify(detail(str(line)))
            )
            spent_s = result.train_seconds + result.eval_seconds
            per_epoch, last = result.batches // result.epochs, self._task.lr_epochs
            if result.ended is End.NO_BETTER or result.epochs == last:
                self._decide(spent_s, tunes=False)
                self._notify(f"the baseline's training has ended after {format_duration(spent_s)}: no tune pays")
                return
            # A falling learning rate is trained to its end.
            stop = expected_stop(saved_progress(folder).curve(per_epoch)) if last is None else float(last * per_epoch)
            # The first epoch is slower than the others, whose median counts.
            batch_s = result.seconds_per_epoch / per_epoch + result.eval_seconds / result.batches
            expected_s = spent_s + (stop - result.batches) * batch_s
            if expected_s * SHARE >= LEAST_S and spent_s >= _SEEN * expected_s:
                self._decide(expected_s, tunes=True)
                self._notify(
                    f"baseline: {count(result.epochs, 'epoch')} in {format_duration(spent_s)}, validation "
                    f"{result.metric.label} {result.metric.show(result.val_accuracy)}; expected to stop improving "
                    f"after {format_duration(expected_s)}, so a tune of {format_duration(self._state.budget_s)} comes "
                    "first"
                )
                return
            epochs = max(2 * epochs, round(epochs * (1 + _LOOK_S / spent_s)))
            epochs = epochs if last is None else min(epochs, last)

    def _tuned(self) -> TunedConfig | None:
        """Tunes, and returns the choice; None if nothing gains over the baseline."""
        folder = self._folder / "tune"
        with self._timed("tune_s"):
            result = tune(
                self._graph,
                task=self._task,
                budget=self._state.budget_s,
                host_memory_limit=self._limit,
                out=folder,
                resume=(folder / "request.json").exists(),
                notify=self._notify,
            )
        if result.tuned.config.canonical() == TrainConfig().canonical():
            self._notify("nothing gains over the baseline, whose training goes on")
            return None
        self._notify(result.summary.headline)
        return result.tuned

    def _train(self, config: TrainConfig | TunedConfig, folder: Path, **options: Any) -> TrainResult:
        return train(
            config,
            self._graph,
            task=self._task,
            host_memory_limit=self._limit,
            out=folder,
            resume=(folder / "checkpoint.pt").exists(),
            **options,
        )

    def _decide(self, expected_s: float, *, tunes: bool) -> None:
        self._state = dataclasses.replace(self._state, expected_s=expected_s, tunes=tunes)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Adds the seconds inside to the field `name` of the state, which is then written."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            spent_s = getattr(self._state, name) + time.perf_counter() - begin
            self._state = dataclasses.replace(self._state, **{name: spent_s})
            self._state.write(self._folder)
