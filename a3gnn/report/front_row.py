"""`FrontRow`: one measured configuration of a front."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from a3gnn._fields import from_fields
from a3gnn.breach import Breach
from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.measurement import METRICS, Metrics

_KNOBS = tuple(name for name in TrainConfig().to_dict() if name != "schema_version")
_FLAGS = ("on_front", "feasible", "labels", "broken", "note", "in_play_off", "compared")
#: Figures that a record holds beside the metrics.
_RANGES = ("throughput_low", "throughput_high", "complete", "seconds_low", "seconds_high")
#: What keeps the limits, and the front does not compare with others.
UNCOMPARED = "keeps the limits, but does not compare (its note says why, or it was only timed)"
#: How the note of a row begins that failed, or broke a limit, in the play-off.
REJECTED = "rejected in the play-off"


class MeasuredConfig(NamedTuple):
    """A configuration with its figures, what was predicted of it before, by metric and bound, and why it lost.

    `in_play_off` is whether its speed was measured in the play-off, and `only_timed` whether nothing was trained when
    its peaks were measured, so that they are not those of a training. `outside` is whether it may not be chosen.
    """

    config: TrainConfig
    figures: Figures
    predicted: dict[str, dict[str, float]] | None
    note: str = ""
    in_play_off: bool = False
    only_timed: bool = False
    outside: bool = False

    @property
    def may_compare(self) -> bool:
        """Whether it may be chosen, was not rejected in the play-off, and its peaks are those of a training."""
        return not (self.only_timed or self.outside or self.note.startswith(REJECTED))


@dataclass(frozen=True, slots=True)
class FrontRow:
    """One measured configuration.

    Attributes:
        config: What ran.
        measured: What it reached.
        predicted: What was predicted before it ran, by metric: its mean, low and high; None where nothing was.
        feasible: Whether it keeps the limits as measured.
        on_front: Whether no other configuration dominates it, of those that are `compared`.
        labels: What it is: `default`, `chosen`, or the best of a priority.
        broken: The limits that it breaks, each with by how much.
        note: Why it was not chosen, where that is not by the limits; "" where nothing is to be said.
        in_play_off: Whether its speed was measured in the play-off, beside that of the choice, not before.
        compared: Whether the front compares it with others (`Front`): it keeps the limits, and its figures say as
            much as theirs.
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
        """Whether it failed, or broke a limit, in the play-off."""
        return self.note.startswith(REJECTED)

    def describe_broken(self) -> str:
        """Returns the broken limits in a few words, "" where none is; files of older versions say no more than that."""
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
        """Returns the row by column: its knobs, figures, predictions' means and flags; what is not known is None."""
        predicted = [(self.predicted or {}).get(name, {}).get("mean") for name in METRICS]
        measured = [getattr(self.measured, name) for name in (*METRICS, *_RANGES)]
        broken = self.describe_broken()
        known = [self.note, self.in_play_off, self.compared]
        flags = [self.on_front, self.feasible, " ".join(self.labels), broken, *known]
        values = [*(getattr(self.config, name) for name in _KNOBS), *measured, *predicted, *flags]
        return dict(zip(self.columns(), values, strict=True))
