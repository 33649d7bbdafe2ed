"""The rows of a front, and what they are compared by: the data of which table, CSV and figure are views."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.limits import Breach
from a3gnn.measurement import METRICS, Metrics
from a3gnn.metric import ACCURACY, Metric
from a3gnn.report.ratios import FigureTexts

_KNOBS = tuple(name for name in TrainConfig().to_dict() if name != "schema_version")
_FLAGS = ("on_front", "feasible", "labels", "broken", "note", "in_play_off", "compared")
#: Figures that a record has besides the metrics.
_RANGES = ("throughput_low", "throughput_high", "complete", "seconds_low", "seconds_high")
#: Label of feasible rows that the front does not compare with others.
UNCOMPARED = "too few measurements to compare"
#: Start of the note of a row that failed, or broke a limit, in the verification.
REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class FrontRow:
    """One measured configuration.

    Attributes:
        config: The configuration.
        measured: Its measured figures.
        predicted: Its prediction before it ran: mean, low and high by metric; None without one.
        feasible: Whether it keeps the limits as measured.
        on_front: Whether no other `compared` configuration dominates it.
        labels: `default`, `chosen`, and the priorities for which it is the best.
        broken: The limits that it breaks.
        note: Why it was not chosen, if not because of the limits; "" if there is nothing to say.
        in_play_off: Whether its speed was measured in the verification together with the choice's, not before it.
        compared: Whether the front compares it with others (`Front`): it keeps the limits, and its figures are
            comparable.
    """

    config: TrainConfig
    measured: Figures
    predicted: dict[str, dict[str, float]] | None
    feasible: bool
    on_front: bool
    labels: tuple[str, ...]
    broken: tuple[Breach, ...] = ()
    note: str = ""
    in_play_off: bool = False
    compared: bool = True

    @property
    def rejected(self) -> bool:
        """Whether it failed, or broke a limit, in the verification."""
        return self.note.startswith(REJECTED)

    def describe_broken(self) -> str:
        """Returns the broken limits in a few words, or ""; files of older versions do not say which ones."""
        return ", ".join(breach.short() for breach in self.broken) or ("" if self.feasible else "over a limit")

    def to_dict(self) -> dict[str, Any]:
        """Returns the row as JSON types."""
        return {
            "labels": list(self.labels),
            "on_front": self.on_front,
            "feasible": self.feasible,
            "broken": [breach.to_dict() for breach in self.broken],
            "config": self.config.to_dict(),
            "measured": dataclasses.asdict(self.measured),
            "predicted": self.predicted,
            "note": self.note,
            "in_play_off": self.in_play_off,
            "compared": self.compared,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the row of `to_dict`, or of an older version, which held `Metrics`."""
        measured = fields["measured"]
        old = "throughput_low" not in measured
        return cls(
            config=TrainConfig.from_dict(fields["config"]),
            measured=Figures.of(Metrics.from_dict(measured), None, None) if old else from_fields(Figures, measured),
            predicted=fields["predicted"],
            feasible=fields["feasible"],
            on_front=fields["on_front"],
            labels=tuple(fields["labels"]),
            broken=tuple(map(Breach.from_dict, fields.get("broken", ()))),
            note=fields.get("note", ""),
            in_play_off=fields.get("in_play_off", False),
            compared=fields.get("compared", fields["feasible"]),
        )

    @classmethod
    def columns(cls) -> list[str]:
        """Returns the names in a `record`, in order."""
        return [*_KNOBS, *METRICS, *_RANGES, *(f"predicted_{name}" for name in METRICS), *_FLAGS]

    def record(self) -> dict[str, Any]:
        """Returns the row by column: its knobs, figures, predicted means and flags; unknown values are None."""
        predicted = [(self.predicted or {}).get(name, {}).get("mean") for name in METRICS]
        measured = [getattr(self.measured, name) for name in (*METRICS, *_RANGES)]
        broken = self.describe_broken()
        known = [self.note, self.in_play_off, self.compared]
        flags = [self.on_front, self.feasible, " ".join(self.labels), broken, *known]
        values = [*(getattr(self.config, name) for name in _KNOBS), *measured, *predicted, *flags]
        return dict(zip(self.columns(), values, strict=True))


@dataclass(frozen=True, slots=True, repr=False)
class FrontRows:
    """The rows of a `Front`, which documents the fields, and the axes that they are shown on."""

    rows: tuple[FrontRow, ...]
    memory: str
    limit_bytes: int | None
    speed: str = "throughput_epochs_per_s"
    target: float | None = None
    metric: Metric = ACCURACY

    @property
    def by_seconds(self) -> bool:
        """Whether speed means seconds to accuracy."""
        return self.speed == "seconds_to_accuracy"

    def texts(self, figures: Figures) -> FigureTexts:
        """Returns `figures` in words, with the memory and the quality of this front."""
        return FigureTexts.of(figures, self.memory, self.metric)

    @property
    def times_accuracy(self) -> bool:
        """Whether seconds to an accuracy can be shown."""
        return self.target is not None or any(row.measured.seconds_to_accuracy is not None for row in self.rows)

    @property
    def seconds_heading(self) -> str:
        """Heading of the seconds to the target: `seconds to 87.20%`."""
        return f"seconds to {self.metric.label if self.target is None else self.metric.show(self.target)}"
