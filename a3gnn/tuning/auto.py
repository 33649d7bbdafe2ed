"""`train_auto`: compares the recommended configuration with the baseline, and trains with the better one to its end."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from a3gnn.apply.train import ending_of, train
from a3gnn.checks import checked_limit
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, GraphServerError, MemoryLimitError, UsageError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.evaluation.event_evaluator import check_untimed
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.metric import AUTO, checked_metric
from a3gnn.models.own.factory import model_name
from a3gnn.notify import detail, listener
from a3gnn.option_names import call, option, options
from a3gnn.report.text import describe_config
from a3gnn.storage.atomic import write_text
from a3gnn.storage.claim import claimed, claimed_next, is_vacant
from a3gnn.task import Task
from a3gnn.training.checkpoint import saved_progress
from a3gnn.training.ending import Ending, Patience
from a3gnn.training.result import TrainResult
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.recommend_first import recommend_apart
from a3gnn.units import count, format_duration, format_seconds

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike

#: Validation quality that the choice may be below the baseline after as many epochs: a tune's `max_accuracy_drop`.
_DROP = 0.005
_STATE, _RECOMMENDED = "auto.json", "recommended"


@dataclass(frozen=True, slots=True)
class AutoState:
    """What `auto.json` contains: what was chosen, and the seconds so far, by the clock.

    Attributes:
        trains: What is trained to its end, "baseline" or "choice"; None before that is decided.
        baseline_s: Seconds of the baseline's first epochs.
        choice_s: Seconds of the recommendation, and of as many epochs with it.
        train_s: Seconds of the training to its end.
    """

    trains: Literal["baseline", "choice"] | None = None
    baseline_s: float = 0.0
    choice_s: float = 0.0
    train_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All seconds so far."""
        return self.baseline_s + self.choice_s + self.train_s

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
    """The result of `train_auto`."""

    trained: TrainResult  # the training to its end; its folder has the model
    chosen: TunedConfig | None  # the recommended configuration; None if the baseline was trained
    state: AutoState  # what was chosen, and the seconds of each part

    def to_dict(self) -> dict[str, Any]:
        """Returns the result of the training, with the state as `auto`."""
        return self.trained.to_dict() | {"auto": self.state.to_dict()}

    def describe(self) -> str:
        """Returns the seconds of each part."""
        state = self.state
        if not state.choice_s:
            return f"{format_duration(state.total_s)} in all, all of them training of the baseline"
        return (
            f"{format_duration(state.total_s)} in all: the baseline first {format_duration(state.baseline_s)}, the "
            f"recommendation {format_duration(state.choice_s)}, then the {state.trains} "
            f"{format_duration(state.train_s)}"
        )


def train_auto(
    dataset: GraphLike,
    *,
    model: str | Callable[[int, int], Any] | None = None,
    task: Task | None = None,
    metric: str | None = None,
    epochs: int | None = None,
    patience: Patience = "auto",
    host_memory_limit: str | int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    references: bool = True,
    split: str | None = None,
    split_seed: int = 0,
    first_s: float = 10.0,
    progress: bool = False,
    notify: Callable[[str], None] | None = None,
) -> AutoResult:
    """Trains the baseline or a recommended configuration, whichever is better, until validation stops improving.

    The baseline trains first, for whole epochs until `first_s` seconds have passed. Then a recommended configuration
    trains for as many epochs. It learns as a tune's first trial for `time` does: as the baseline, with bfloat16 and
    full first aggregations as far as this machine and this graph have them and the limit allows. Its other knobs are
    predicted to be the fastest. If its epochs take less time, and validation is at most half a point below the
    baseline's, its training goes on; if not, the baseline's does, from its checkpoint.

    Args:
        dataset: A graph, or any argument of `tune`.
        model: Replaces the task's model; a built-in one, as nothing can be predicted of another.
        task: The task; the default one without.
        metric: As in `tune`.
        epochs: Most epochs, as in `train`.
        patience: When training ends before that, as in `train`.
        host_memory_limit: Limit on host memory of the trainings.
        out: A new folder for the trainings (`baseline`, `choice`), the recommendation (`recommended`) and `auto.json`;
            by default runs/auto-GRAPH.
        resume: Whether to go on with the run in `out`.
        references: As in `train`.
        split: As in `tune`.
        split_seed: As in `tune`.
        first_s: Seconds that the baseline trains first, by default about as long as the surrogate's first fit takes.
        progress: Whether to draw a progress bar of the last training.
        notify: Takes each line of progress; by default they are printed.

    Raises:
        UsageError: An option has a wrong value, or `out` is not empty and `resume` is off.
        KeyboardInterrupt: By Ctrl-C; the same call with `resume` goes on.
    """
    notify, asked = listener(notify), checked_metric(metric)
    ending = ending_of(epochs, patience, task or Task(), lambda line: None)
    limit = checked_limit(option("host_memory_limit"), host_memory_limit)
    given = AUTO if asked is None and task is None else asked
    if model is not None:
        task = (task or Task()).with_model(model_name(model))
    with ExitStack() as stack:
        graph = as_graph(dataset, Split.of(split, split_seed)).on_disk()
        check_untimed(graph, "train with auto")
        judged = _built_in(with_metric(task or Task(), given, graph, notify))
        folder = stack.enter_context(_claimed(out, f"auto-{graph.name}", resume, notify))
        run = _Auto(graph, judged, folder, limit, ending, patience, progress, notify)
        try:
            return run.whole(first_s, references)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(
                f"what was done is kept; the same {call()} with {options(out=folder, resume=True)} goes on"
            ) from interrupt


def _built_in(task: Task) -> Task:
    """Returns `task`, checked to have a built-in model."""
    if task.is_own:
        raise UsageError(
            f"{option('model')} must be a built-in one, got {task.model}: nothing was measured of your own, or of "
            "models for node types and links, from which a faster configuration could be predicted; a3gnn tune "
            "measures it"
        )
    return task


def _claimed(
    out: str | Path | None, name: str, resume: bool, notify: Callable[[str], None]
) -> AbstractContextManager[Path]:
    """Returns the claim of the folder `out`, or of a new one called `name`."""
    if out is None:
        return claimed_next(name, notify)
    if not resume and not is_vacant(Path(out)):
        raise UsageError(f"{option('out', Path(out))} must be a new or empty folder; add {option('resume', True)}")
    return claimed(Path(out), notify)


class _Auto:
    """One run, which can be continued from its folder."""

    def __init__(
        self,
        graph: Graph,
        task: Task,
        folder: Path,
        limit: int | None,
        ending: Ending,
        patience: Patience,
        progress: bool,
        notify: Callable[[str], None],
    ) -> None:
        self._graph, self._task, self._folder = graph, task, folder
        self._limit, self._ending, self._patience = limit, ending, patience
        self._progress, self._notify = progress, notify
        self._state = AutoState.read(folder)

    def whole(self, first_s: float, references: bool) -> AutoResult:
        """Runs what is left, and returns the result."""
        if self._state.trains is None:
            self._decide(first_s)
        chosen = TunedConfig.read(self._folder / _RECOMMENDED) if self._state.trains == "choice" else None
        with self._timed("train_s"):
            try:
                trained = self._train(
                    chosen,
                    epochs=self._ending.epochs,
                    references=references,
                    notify=self._with_folder,
                    progress=self._progress,
                )
            except (MemoryLimitError, GraphServerError) as error:
                raise type(error)(self._shown(str(error))) from error
        return AutoResult(trained, chosen, self._state)

    def _decide(self, first_s: float) -> None:
        """Trains the baseline and then the recommended configuration for as many epochs, and decides."""
        self._notify(
            f"the baseline trains for {first_s:g} s first, and the recommended configuration for as many epochs"
        )
        try:
            with self._timed("baseline_s"):
                first = self._first_epochs(first_s)
        except MemoryLimitError as error:
            return self._without_baseline(error)
        if self._is_over(first):
            self._notify("the baseline's training has ended meanwhile: there is no time to save")
            return self._settle("baseline")
        with self._timed("choice_s"):
            beside = self._recommended(first.epochs)
        if beside is None:
            self._notify("the baseline's training goes on")
            return self._settle("baseline")
        metric = first.metric
        choice: Literal["baseline", "choice"] = "choice" if is_better(beside, first) else "baseline"
        self._notify(
            f"after {count(first.epochs, 'epoch')}: {format_seconds(beside.seconds_per_epoch)} an epoch in place of "
            f"the baseline's {format_seconds(first.seconds_per_epoch)}, validation {metric.label} "
            f"{metric.show(beside.val_accuracy)} in place of {metric.show(first.val_accuracy)}; the {choice}'s "
            "training goes on"
        )
        return self._settle(choice)

    def _without_baseline(self, error: MemoryLimitError) -> None:
        """Has the recommended configuration trained where the baseline does not fit; raises `error` if that fails."""
        self._notify(f"the baseline does not fit: {error.__cause__ or error}")
        with self._timed("choice_s"):
            if self._recommended(1) is None:
                raise error
        self._settle("choice")

    def _first_epochs(self, first_s: float) -> TrainResult:
        """Trains the baseline for whole epochs, until they have taken `first_s` seconds or the training is over."""
        folder = self._folder / "baseline"
        if (folder / "checkpoint.pt").exists():
            before = saved_progress(folder)
            epochs = max(1, len(before.epochs) + (before.under_way.batches > 0))
        else:
            epochs = 1
        while True:
            result = self._train(None, epochs=epochs, notify=self._quietly)
            took_s = result.train_seconds + result.eval_seconds
            if took_s >= first_s or self._is_over(result):
                return result
            epochs += math.ceil((first_s - took_s) / result.seconds_per_epoch)
            last = self._ending.epochs
            epochs = epochs if last is None else min(epochs, last)

    def _is_over(self, first: TrainResult) -> bool:
        """Whether the baseline's training would not go on after its `first` epochs."""
        progress, per_epoch = saved_progress(self._folder / "baseline"), first.batches // first.epochs
        return self._ending.reached(progress, per_epoch) is not None

    def _recommended(self, epochs: int) -> TrainResult | None:
        """Trains the recommended configuration for `epochs`; None if it is the baseline, or fails."""
        folder = self._folder / _RECOMMENDED
        try:
            if not (folder / "tuned.json").exists():
                recommend_apart(self._graph, self._task, self._limit, folder, self._quietly)
            chosen = TunedConfig.read(folder)
            if chosen.config.canonical() == TrainConfig().canonical():
                self._notify("nothing is predicted to be faster than the baseline")
                return None
            self._notify(f"recommended: {describe_config(chosen.config)}")
            return self._train(chosen, epochs=epochs, notify=self._quietly)
        except A3GNNError as error:
            self._notify(str(error.__cause__ or error))
            return None

    def _train(self, chosen: TunedConfig | None, references: bool = False, **options: Any) -> TrainResult:
        folder = self._folder / ("baseline" if chosen is None else "choice")
        return train(
            chosen or TrainConfig(),
            self._graph,
            task=self._task,
            host_memory_limit=self._limit,
            out=folder,
            patience=self._patience,
            resume=(folder / "checkpoint.pt").exists(),
            references=references,
            **options,
        )

    def _quietly(self, line: str) -> None:
        self._notify(detail(str(line)))

    def _settle(self, trains: Literal["baseline", "choice"]) -> None:
        self._state = dataclasses.replace(self._state, trains=trains)
        self._state.write(self._folder)

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

    def _with_folder(self, line: str) -> None:
        """Passes on a line of the last training; one that says how to go on, with the run's folder."""
        shown = self._shown(line)
        self._notify(line if shown == line else shown)

    def _shown(self, text: str) -> str:
        """Returns a line of the last training with the run's folder, which is the one to go on with."""
        return text.replace(f"{self._folder}/{self._state.trains}", str(self._folder))


def is_better(choice: TrainResult, baseline: TrainResult) -> bool:
    """Whether `choice` is faster after as many epochs, and its validation quality at most `_DROP` lower.

    Seconds of evaluation do not count: the first one of a graph may store a table that later ones read.
    """
    faster = choice.seconds_per_epoch < baseline.seconds_per_epoch
    return faster and choice.val_accuracy >= baseline.val_accuracy - _DROP
