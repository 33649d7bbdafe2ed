"""What a tune returns, and the files that hold it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a3gnn.errors import MissingDependencyError
from a3gnn.report.figure import save_front_figure
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig

#: What of tuned.json the result repeats.
_TUNED = (
    *("config", "predicted", "measured", "default"),
    *("target_accuracy", "seconds_to_accuracy", "against_default", "left_out"),
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
        random_ratio: The same for as many random configurations.
        over_random: Predicted hypervolume that the last search found over that of as many random configurations, on the
            scale of both fronts, or None where a random one keeps no limit.
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


def write_result(result: TuneResult, notify: Callable[[str], None]) -> None:
    """Writes the files of `result` into its folder; `tuned.json` last, so that it is there only if all are."""
    folder = result.folder
    (folder / "front.json").write_text(json.dumps(result.front.to_dict(), indent=1), encoding="utf-8")
    (folder / "front.csv").write_text(result.front.csv(), encoding="utf-8")
    try:
        graph = result.tuned.setting.graph
        save_front_figure(result.front, folder / "front.png", f"{graph.name}, {result.tuned.setting.task.model}")
    except MissingDependencyError as error:
        notify(f"no front.png: {error}")
    result.tuned.write(folder / "tuned.json")
