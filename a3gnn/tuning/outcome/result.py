"""`TuneResult`: the result of a tune, and its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.config import TrainConfig
from a3gnn.errors import MissingDependencyError
from a3gnn.notify import detail
from a3gnn.option_names import option
from a3gnn.report.front import Front
from a3gnn.storage.atomic import write_text
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.choice import STOPPED
from a3gnn.tuning.study.folder import Journal, TuneState, check_request, read_request
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.measured_front import measured_front
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.tell.summary import Summary, summary, summary_html, summary_lines
from a3gnn.units import count, format_duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LambdaLR

    from a3gnn.tuning.outcome.picked import Pick


#: Fields of tuned.json that the result repeats.
_TUNED = (
    *("config", "predicted", "measured", "default"),
    *("target_accuracy", "seconds_to_accuracy", "against_default", "no_gain", "left_out"),
)


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """Statistics of the search.

    Attributes:
        engine: Name of the engine that chose the trials.
        evaluations: Configurations that the surrogate predicted.
        configurations: Distinct configurations of the space; None without a search.
        seconds: Seconds of choosing trials.
    """

    engine: str
    evaluations: int = 0
    configurations: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The result of `tune`.

    Attributes:
        folder: Contains its files: tuned.json, front.csv, front.json, front.png, probes.jsonl.
        tuned: The chosen configuration, with its predicted and measured figures.
        front: All measured configurations.
        search: Statistics of the search.
        trials: Number of trials after the default configuration.
        seconds: Seconds of the tune, including interrupted runs.
    """

    folder: Path
    tuned: TunedConfig
    front: Front
    search: SearchSummary
    trials: int
    seconds: float

    def __repr__(self) -> str:
        """Returns the summary that `a3gnn tune` prints."""
        return "\n".join(summary_lines(self.summary, self.folder))

    @property
    def summary(self) -> Summary:
        """The answer: the baseline beside the choice, what changed, and reasons to doubt it."""
        return summary(self.tuned, self.front, self.trials, self.seconds)

    @property
    def config(self) -> TrainConfig:
        """The chosen configuration."""
        return self.tuned.config

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as one JSON object."""
        tuned = self.tuned.to_dict()
        return {
            **{name: tuned[name] for name in (*_TUNED, "heuristics") if name in tuned},
            "metric": self.tuned.setting.metric.to_dict(),
            "front": [row.to_dict() for row in self.front.rows if row.on_front],
            "search": {name: getattr(self.search, name) for name in SearchSummary.__dataclass_fields__},
            "probes": self.trials,
            "seconds": self.seconds,
            "folder": str(self.folder),
        }

    def apply(self, model: nn.Module, optimizer: Optimizer, *, batches_per_epoch: int | None = None) -> LambdaLR:
        """Applies the choice to a model and its optimizer in your own loop, as `TunedConfig.apply` does."""
        return self.tuned.apply(model, optimizer, batches_per_epoch=batches_per_epoch)

    def make_model(self, in_channels: int | None = None, out_channels: int | None = None) -> nn.Module:
        """Returns a new module of the chosen model for your own loop, as `TunedConfig.make_model` does."""
        return self.tuned.make_model(in_channels, out_channels)

    def to_dataframe(self) -> DataFrame:
        """Returns all measured configurations as a pandas DataFrame, a row each (`Front.to_dataframe`).

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return self.front.to_dataframe()

    def plot(self) -> Figure:
        """Returns front.png as a figure (`Front.plot`).

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        setting = self.tuned.setting
        models = dict.fromkeys(row.config.task_of(setting.task).model for row in self.front.rows)
        return self.front.plot(f"{setting.graph.name}, {', '.join(models)}")

    def pick(self, **asked: Any) -> Pick:
        """Returns the best measured configuration by another priority or other limits, without a trial (`pick`).

        Args:
            asked: Keyword arguments of `a3gnn.tuning.outcome.pick.pick`: priority, memory_limit, max_accuracy_drop, ...
        """
        from a3gnn.tuning.outcome.pick import pick

        return pick(self.folder, **asked)

    def _repr_html_(self) -> str:
        """Returns the summary and the front for a notebook."""
        return f"{summary_html(self.summary)}\n{self.front._repr_html_()}\n<p>{escape(str(self.folder))}/tuned.json</p>"


def write_result(result: TuneResult, notify: Callable[[str], None]) -> None:
    """Writes the files of `result` into its folder; `tuned.json` comes last, so it exists only if all others do."""
    folder = result.folder
    write_text(folder / "front.json", json.dumps(result.front.to_dict(), indent=1))
    write_text(folder / "front.csv", result.front.csv())
    try:
        result.plot().savefig(folder / "front.png", dpi=130)
    except MissingDependencyError as error:
        notify(detail(f"no front.png: {error}"))
    result.tuned.write(folder / "tuned.json")


def finished_result(folder: Path, request: TuneRequest) -> TuneResult | None:
    """Returns the result of the tune in `folder` if it has finished with at least the budget of `request`; else None.

    A stopped tune counts as unfinished, whatever budget it has spent, because its verification is missing.

    Raises:
        UsageError: The folder holds no tune, or one of another request.
        ConfigError: Its files are not in this version's format.
    """
    check_request(folder, request)
    trials = Journal(folder).read()
    state = TuneState.read(folder, trials)
    counted = sum(trial.counts for trial in trials)
    if state.finished_budget is None or not (folder / "tuned.json").exists():
        return None
    spent = state.finished_budget
    if isinstance(spent, int) != isinstance(request.budget, int):
        spent = counted if isinstance(request.budget, int) else state.elapsed_s
    tuned = TunedConfig.read(folder)
    if request.budget > spent or STOPPED in tuned.left_out:
        return None
    nothing_new = SearchSummary(request.engine)
    return TuneResult(folder, tuned, Front.read(folder), nothing_new, counted, state.elapsed_s)


def say_finished(result: TuneResult, notify: Callable[[str], None]) -> None:
    """Prints that the tune of `result` is finished, and how to continue it."""
    notify(
        f"the tune in {result.folder} is finished: {count(result.trials, 'trial')} after the baseline, "
        f"{format_duration(result.seconds)}; a larger {option('budget')} goes on with it"
    )


def unfinished_front(folder: Path) -> Front | None:
    """Returns the front so far of the unfinished tune in `folder`; None if it holds none.

    Raises:
        ConfigError: Its files are not in this version's format.
    """
    if not (folder / "probes.jsonl").is_file():
        return None
    trials = Journal(folder).read(mend=False)
    if not trials or TuneState.read(folder, trials).finished_budget is not None:
        return None
    study = Study.of(read_request(folder), trials[0].measurement.setting)
    return measured_front(History(study, tuple(trials)))
