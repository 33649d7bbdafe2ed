"""The model card: what a surrogate was evaluated on, and its scores."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS

_TITLES = dict(
    zip(
        METRICS,
        ("throughput", "device memory", "host memory above idle", "accuracy", "seconds to accuracy"),
        strict=True,
    )
)


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one contender on one split and metric, over all held-out rows.

    Attributes:
        contender: One of `CONTENDERS`.
        split: One of `SPLITS`.
        metric: One of `METRICS`; the host's peak is less the known peak of an idle trial.
        r2: R2 of the logarithms, or of accuracy, within settings: between configurations of one task on one graph and
            machine, which is what tuning compares. 1 is perfect, 0 no better than each setting's mean.
        median_error: Median of |predicted / measured - 1|, or of the difference in accuracy.
        coverage: Share of the measurements inside their intervals.
        worst_coverage: Coverage in the setting (a task on a graph and a machine) where it is least.
    """

    contender: str
    split: str
    metric: str
    r2: float
    median_error: float
    coverage: float
    worst_coverage: float


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The scores of a surrogate and its baselines, and the measurements they are from.

    Attributes:
        num_rows: Measurements with metrics.
        num_failures: Failed trials, which are left out.
        graphs: Names of the graphs.
        nominal_coverage: Share of measurements that the intervals should cover.
        notes: Remarks for the reader.
        scores: One per contender, split and metric.
    """

    num_rows: int
    num_failures: int
    graphs: tuple[str, ...]
    nominal_coverage: float
    notes: tuple[str, ...]
    scores: tuple[Score, ...]

    def score(self, contender: str, split: str, metric: str) -> Score:
        """Returns the score of a contender on a split and metric.

        Raises:
            UsageError: The card has none.
        """
        for score in self.scores:
            if (score.contender, score.split, score.metric) == (contender, split, metric):
                return score
        raise UsageError(f"the card has no score of {contender!r} on {split!r} for {metric!r}")

    def to_json(self) -> str:
        """Returns the card as one JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the card of `to_json`."""
        fields = json.loads(text)
        scores = tuple(Score(**score) for score in fields["scores"])
        lists = {name: tuple(fields[name]) for name in ("graphs", "notes")}
        return cls(**{**fields, **lists, "scores": scores})

    def to_markdown(self) -> str:
        """Returns the card as markdown: one table per split."""
        lines = [
            "# Model card of the surrogate",
            "",
            f"{self.num_rows} measurements of {len(self.graphs)} graphs ({', '.join(self.graphs)}); "
            f"{self.num_failures} failed trials left out. Intervals should cover {self.nominal_coverage:.0%}.",
            "",
            *(f"* {note}" for note in self.notes),
        ]
        for split in dict.fromkeys(score.split for score in self.scores):
            lines += ["", f"## {split}", "", *_table([score for score in self.scores if score.split == split])]
        return "\n".join(lines) + "\n"


def _table(scores: Sequence[Score]) -> Iterator[str]:
    """Yields the lines of a table: a row per contender, and R2 / median error / coverage (the worst) per metric."""
    metrics = list(dict.fromkeys(score.metric for score in scores))
    yield (
        "| R2 / median error / coverage (of the worst setting) | "
        + " | ".join(_TITLES[metric] for metric in metrics)
        + " |"
    )
    yield "|---|" + "---:|" * len(metrics)
    for contender in dict.fromkeys(score.contender for score in scores):
        own = {score.metric: score for score in scores if score.contender == contender}
        yield f"| {contender} | " + " | ".join(_cell(own[metric]) for metric in metrics) + " |"


def _cell(score: Score) -> str:
    return f"{score.r2:.2f} / {score.median_error:.1%} / {score.coverage:.0%} ({score.worst_coverage:.0%})"
