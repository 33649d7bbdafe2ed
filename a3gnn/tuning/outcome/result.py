"""What a tune returns, and the files that hold it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.config import TrainConfig
from a3gnn.errors import MissingDependencyError
from a3gnn.option_names import option
from a3gnn.report.front import Front
from a3gnn.storage.atomic import write_text
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.choice import STOPPED
from a3gnn.tuning.study.folder import check_request, read_request
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.journal import Journal
from a3gnn.tuning.study.measured_front import measured_front
from a3gnn.tuning.study.request import TuneRequest
from a3gnn.tuning.study.state import TuneState
from a3gnn.tuning.study.study import Study
from a3gnn.tuning.tell.choice_lines import choice_lines
from a3gnn.units import count, format_duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from a3gnn.tuning.outcome.picked import Pick


#: What of tuned.json the result repeats.
_TUNED = (
    *("config", "predicted", "measured", "default"),
    *("target_accuracy", "seconds_to_accuracy", "against_default", "no_gain", "left_out"),
)


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """How the search went.

    Attributes:
        engine: The searcher.
        evaluations: Distinct configurations that the surrogate predicted, over all rounds.
        configurations: Those of the space that the last search was made in which run differently; None without one.
        hypervolume_ratio: Predicted hypervolume that the last search found over the exhaustive front's, or None
            where the space is too large to enumerate.
        random_ratio: The same of as many random configurations in the first search, which alone is compared with them;
            None in a tune that was resumed after it.
        over_random: Predicted hypervolume that search found over that of as many random configurations, on the scale of
            both fronts, or None where a random one keeps no limit, and in a tune that was resumed after it.
        seconds: What the searches took.
    """

    engine: str
    evaluations: int
    configurations: int | None
    hypervolume_ratio: float | None
    random_ratio: float | None
    over_random: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What `tune` found.

    Attributes:
        folder: Where its files are: tuned.json, front.csv, front.json, front.png, probes.jsonl.
        tuned: The chosen configuration, with what was predicted and measured.
        front: Everything that was measured.
        search: How the search went.
        trials: Trials after the default configuration.
        seconds: What the tune took, interrupted runs of it included.
    """

    folder: Path
    tuned: TunedConfig
    front: Front
    search: SearchSummary
    trials: int
    seconds: float

    def __repr__(self) -> str:
        """Returns the lines that a tune ends with."""
        return "\n".join([*choice_lines(self.tuned, self.front), f"{self.folder}/tuned.json"])

    @property
    def config(self) -> TrainConfig:
        """The chosen configuration."""
        return self.tuned.config

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as one JSON object."""
        tuned = self.tuned.to_dict()
        return {
            **{name: tuned[name] for name in _TUNED},
            "metric": self.tuned.setting.metric.to_dict(),
            "front": [row.to_dict() for row in self.front.rows if row.on_front],
            "search": {name: getattr(self.search, name) for name in SearchSummary.__dataclass_fields__},
            "probes": self.trials,
            "seconds": self.seconds,
            "folder": str(self.folder),
        }

    def to_dataframe(self) -> DataFrame:
        """Returns everything that was measured as a pandas DataFrame, a row per configuration (`Front.to_dataframe`).

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return self.front.to_dataframe()

    def plot(self) -> Figure:
        """Returns front.png as a figure (`Front.plot`).

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        return self.front.plot(f"{self.tuned.setting.graph.name}, {self.tuned.setting.task.model}")

    def pick(self, **asked: Any) -> Pick:
        """Returns the best of what was measured by another priority or other limits, without a trial (`pick`).

        Args:
            asked: As `a3gnn.tuning.outcome.pick.pick` takes it: priority, memory_limit, max_accuracy_drop, ...
        """
        from a3gnn.tuning.outcome.pick import pick

        return pick(self.folder, **asked)

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: the lines that a tune ends with, and its front."""
        lines = "\n".join(map(escape, choice_lines(self.tuned, self.front)))
        return f"<pre>{lines}</pre>\n{self.front._repr_html_()}\n<p>{escape(str(self.folder))}/tuned.json</p>"


def write_result(result: TuneResult, notify: Callable[[str], None]) -> None:
    """Writes the files of `result` into its folder; `tuned.json` last, so that it is there only if all are."""
    folder = result.folder
    write_text(folder / "front.json", json.dumps(result.front.to_dict(), indent=1))
    write_text(folder / "front.csv", result.front.csv())
    try:
        result.plot().savefig(folder / "front.png", dpi=130)
    except MissingDependencyError as error:
        notify(f"no front.png: {error}")
    result.tuned.write(folder / "tuned.json")


def finished_result(folder: Path, request: TuneRequest) -> TuneResult | None:
    """Returns what the tune in `folder` found, if it has finished with at least the budget of `request`, or None.

    One that was stopped has not: its play-off is due, whatever of the budget is spent.

    Raises:
        UsageError: The folder holds no tune, or one of another request.
        ConfigError: Its files are not those of this version.
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
    nothing_new = SearchSummary(request.engine, 0, None, None, None, None, 0.0)
    return TuneResult(folder, tuned, Front.read(folder), nothing_new, counted, state.elapsed_s)


def say_finished(result: TuneResult, notify: Callable[[str], None]) -> None:
    """Says that the tune of `result` is finished, and how it would go on."""
    notify(
        f"the tune in {result.folder} is finished: {count(result.trials, 'trial')} after the default, "
        f"{format_duration(result.seconds)}; a larger {option('budget')} goes on with it"
    )


def unfinished_front(folder: Path) -> Front | None:
    """Returns the front so far of the tune in `folder`, or None where it holds none that is under way.

    Raises:
        ConfigError: Its files are not those of this version.
    """
    if not (folder / "probes.jsonl").is_file():
        return None
    trials = Journal(folder).read(mend=False)
    if not trials or TuneState.read(folder, trials).finished_budget is not None:
        return None
    study = Study.of(read_request(folder), trials[0].measurement.setting)
    return measured_front(History(study, tuple(trials)))
