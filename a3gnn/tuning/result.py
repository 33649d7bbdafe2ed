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
from a3gnn.report.front import Front
from a3gnn.storage.atomic import write_text
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.choice_lines import choice_lines

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
