"""The measured front of a tune, computed once; table, CSV, figure and notebook are views of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from a3gnn._fields import from_fields
from a3gnn._imports import optional
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ConfigError
from a3gnn.figures import Figures
from a3gnn.limits import Breach
from a3gnn.measurement import METRICS, Metrics
from a3gnn.metric import ACCURACY, Metric
from a3gnn.objectives import Objectives, Priority
from a3gnn.pareto import non_dominated
from a3gnn.units import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_KNOBS = tuple(name for name in TrainConfig().to_dict() if name != "schema_version")
_FLAGS = ("on_front", "feasible", "labels", "broken", "note", "in_play_off", "compared")
#: Figures that a record has besides the metrics.
_RANGES = ("throughput_low", "throughput_high", "complete", "seconds_low", "seconds_high")
#: Label of feasible rows that the front does not compare with others.
UNCOMPARED = "keeps the limits, but does not compare (its note says why, or it was only timed)"
#: Start of the note of a row that failed, or broke a limit, in the play-off.
REJECTED = "rejected in the play-off"
#: Note of a faster feasible configuration that was not chosen.
_OUTWEIGHED = "its memory or {label} outweighs its speed"
#: Note of a configuration that lost to the default because no gain was measurable.
NO_GAIN = "no measurable gain over the default"
#: Notes of configurations with a better score that were not chosen.
_IN_ROUNDS = "measured less often than the choice, and the best of such measurements is often a lucky one"
_ONCE = "measured once, and the best of many single measurements is often a lucky one"
#: Priorities whose best configurations are labeled.
PICKS = ("time", "throughput", "memory", "accuracy", "balanced")


class MeasuredConfig(NamedTuple):
    """A measured configuration.

    Attributes:
        config: The configuration.
        figures: Its figures.
        predicted: Its prediction before it ran, by metric and bound; None without one.
        note: Why it lost.
        in_play_off: Whether its speed was measured in the play-off.
        only_timed: Whether nothing was trained when its peaks were measured, so that they are not a training's peaks.
        outside: Whether it may not be chosen.
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
        """Whether it may be chosen, was not rejected in the play-off, and has the peaks of a training."""
        return not (self.only_timed or self.outside or self.note.startswith(REJECTED))


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
        in_play_off: Whether its speed was measured in the play-off together with the choice's, not before it.
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
        """Whether it failed, or broke a limit, in the play-off."""
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
class Front:
    """All measured configurations of a tune, with the best of each priority labeled.

    The front compares only comparable rows. It leaves out rows that break a limit, were rejected in the play-off, may
    not be chosen, or were only timed: a timed trial peaks below a training. Once a tune has chosen, it also leaves out
    rows that look better than the choice but were measured less often: the best of many such measurements is often
    lucky. If the default was chosen for lack of a measurable gain, it leaves out the configuration that lost to the
    default, if its figures dominate. So the choice is always on the front.

    Attributes:
        rows: Rows, fastest first by `speed`; rows that miss the target come last.
        memory: The metric on the memory axis.
        limit_bytes: The limit on that memory, or None.
        speed: The metric on the speed axis: throughput_epochs_per_s or seconds_to_accuracy.
        target: The validation quality to reach, or None.
        metric: The metric of that quality.
    """

    rows: tuple[FrontRow, ...]
    memory: str
    limit_bytes: int | None
    speed: str = "throughput_epochs_per_s"
    target: float | None = None
    metric: Metric = ACCURACY

    def __repr__(self) -> str:
        """Returns a summary in a line; `to_dataframe`, `plot` and notebooks show the rows."""
        on_front = sum(row.on_front for row in self.rows)
        return f"Front({count(len(self.rows), 'configuration')}, {on_front} of them on the front)"

    @property
    def by_seconds(self) -> bool:
        """Whether speed means seconds to accuracy."""
        return self.speed == "seconds_to_accuracy"

    @property
    def times_accuracy(self) -> bool:
        """Whether seconds to an accuracy can be shown."""
        return self.target is not None or any(row.measured.seconds_to_accuracy is not None for row in self.rows)

    @property
    def seconds_heading(self) -> str:
        """Heading of the seconds to the target: `seconds to 87.20%`."""
        return f"seconds to {self.metric.label if self.target is None else self.metric.show(self.target)}"

    @classmethod
    def of(
        cls,
        measured: Sequence[MeasuredConfig],
        objectives: Objectives,
        chosen: TrainConfig | None = None,
        reference_s: float | None = None,
        no_gain: TrainConfig | None = None,
    ) -> Self:
        """Returns the front of `measured` under the limits of `objectives`, with the best of every priority labeled.

        Args:
            measured: All measured configurations.
            objectives: The limits and the priority.
            chosen: The choice, which keeps its limits because its play-off found so; None before there is one.
            reference_s: The default's seconds to the target, if it may be chosen. A priority that weighs speed then
                labels no configuration that is later.
            no_gain: The configuration that lost to the default for lack of a measurable gain, or None.
        """
        broken = [() if one.config == chosen else objectives.limits.broken_by(one.figures) for one in measured]
        lucky = _lucky(measured, objectives, chosen, no_gain)
        compared = [not broken[i] and not lucky[i] and one.may_compare for i, one in enumerate(measured)]
        on_front = np.zeros(len(measured), dtype=np.bool_)
        kept = [i for i, takes_part in enumerate(compared) if takes_part]
        feasible = [measured[i].figures for i in kept]
        own = next((at for at, i in enumerate(kept) if measured[i].config == chosen), None)
        best = {kept[i]: names for i, names in _picks(feasible, objectives, own, reference_s).items()}
        if kept:
            on_front[kept] = non_dominated(objectives.measured_costs(feasible))
        notes = _notes(measured, broken, lucky, objectives, chosen, no_gain)
        rows = []
        for i, (config, figures, predicted, _, in_play_off, *_) in enumerate(measured):
            said = ["chosen"] if config == chosen else []
            said += ["default"] if config == TrainConfig().canonical() else []
            labels = (*said, *best.get(i, ()))
            flags = not broken[i], bool(on_front[i])
            row = FrontRow(config, figures, predicted, *flags, labels, broken[i], notes[i], in_play_off, compared[i])
            rows.append(row)
        order = np.argsort(objectives.measured_costs([row.measured for row in rows])[:, 0], kind="stable")
        limits = objectives.limits
        return cls(
            rows=tuple(rows[i] for i in order),
            memory=objectives.memory,
            limit_bytes=objectives.memory_limit_bytes,
            speed=objectives.speed,
            target=limits.least_accuracy,
            metric=limits.metric,
        )

    def records(self) -> list[dict[str, Any]]:
        """Returns a dict per row: every knob and figure by name, sizes in bytes; unknown values are None."""
        return [row.record() for row in self.rows]

    def csv(self) -> str:
        """Returns `records` as CSV; unknown values are empty."""
        out = io.StringIO()
        writer = csv.DictWriter(out, FrontRow.columns(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records())
        return out.getvalue()

    def to_dataframe(self) -> DataFrame:
        """Returns `records` as a pandas DataFrame, a row per measured configuration.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        pandas = optional("pandas", "dataframe", "A front as a DataFrame")
        frame: DataFrame = pandas.DataFrame(self.records(), columns=FrontRow.columns())
        return frame

    def plot(self, title: str = "") -> Figure:
        """Returns the front as a figure: speed against memory, colored by validation quality (`front_figure`).

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        from a3gnn.report.figure import front_figure

        return front_figure(self, title)

    def _repr_html_(self) -> str:
        """Returns the table that `a3gnn front` prints, as HTML for a notebook."""
        from a3gnn.report.table import front_html

        return front_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Returns the front as one JSON object."""
        return {
            "memory": self.memory,
            "limit_bytes": self.limit_bytes,
            "speed": self.speed,
            "target": self.target,
            "metric": self.metric.to_dict(),
            "rows": [row.to_dict() for row in self.rows],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the front of `to_dict`; fields that older versions did not write get their defaults.

        Raises:
            KeyError: A field is missing.
            A3GNNError: A field is out of range.
        """
        rows = tuple(map(FrontRow.from_dict, fields["rows"]))
        speed = fields.get("speed", "throughput_epochs_per_s")
        metric = Metric.from_dict(fields.get("metric"))
        return cls(rows, fields["memory"], fields["limit_bytes"], speed, fields.get("target"), metric)

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Returns the front that `a3gnn tune --out FOLDER` wrote.

        Raises:
            ConfigError: The folder holds no finished tune, or one of another version.
        """
        path = Path(folder) / "front.json"
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise ConfigError(
                f"{folder} must be the --out folder of a finished a3gnn tune, but it holds no front.json; "
                f"run a3gnn tune --out {shlex.quote(str(folder))} first"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, A3GNNError) as error:
            raise ConfigError(
                f"{path} must be a front that this version of a3gnn wrote: {error}; tune again"
            ) from error


def _lucky(
    measured: Sequence[MeasuredConfig],
    objectives: Objectives,
    chosen: TrainConfig | None,
    no_gain: TrainConfig | None,
) -> list[bool]:
    """Returns which of `measured` look better than `chosen` and were not measured together with it.

    They have a better score, or dominate it: a score caps some figures, such as accuracy beyond the target. `no_gain`
    was measured together with the choice, so it is among them only if it dominates.
    """
    at = next((i for i, one in enumerate(measured) if one.config == chosen), None)
    if at is None:
        return [False] * len(measured)
    figures = [one.figures for one in measured]
    score, costs = objectives.measured_score(figures), objectives.measured_costs(figures)
    dominates = (costs <= costs[at]).all(axis=1) & (costs < costs[at]).any(axis=1)
    default = TrainConfig().canonical()
    found = []
    for one, scores_more, is_better in zip(measured, score > score[at], dominates, strict=True):
        beside = one.in_play_off and one.config in (chosen, default, no_gain)
        looks = bool(is_better) or (bool(scores_more) and not beside)
        found.append(looks and (not beside or one.config == no_gain))
    return found


def _picks(
    feasible: Sequence[Figures], objectives: Objectives, chosen: int | None, reference_s: float | None
) -> dict[int, list[str]]:
    """Returns the priorities by the index of their best in `feasible`; the tune's own priority has `chosen`."""
    best: dict[int, list[str]] = {}
    reached = any(figures.seconds_to_accuracy is not None for figures in feasible)
    for pick in PICKS:
        priority = Priority.parse(pick)
        latest_s = reference_s if priority.deciding[0] else None
        kept = [i for i, figures in enumerate(feasible) if not figures.later_than(latest_s)]
        if not kept or (priority.time and not reached):
            continue
        index = kept[dataclasses.replace(objectives, priority=priority).best_index([feasible[i] for i in kept])]
        own = chosen is not None and pick == objectives.priority.name
        best.setdefault(chosen if own and chosen is not None else index, []).append(pick)
    return best


def _notes(
    measured: Sequence[MeasuredConfig],
    broken: Sequence[tuple[Breach, ...]],
    lucky: Sequence[bool],
    objectives: Objectives,
    chosen: TrainConfig | None,
    no_gain: TrainConfig | None,
) -> list[str]:
    """Returns the notes of `measured`; a row without one that looks better than `chosen` gets the reason it lost."""
    costs = objectives.measured_costs([one.figures for one in measured])
    at = next((i for i, one in enumerate(measured) if one.config == chosen), None)
    found = []
    for i, one in enumerate(measured):
        note = one.note
        if not (note or broken[i] or at is None):
            faster = costs[i, 0] < costs[at, 0]
            again = NO_GAIN if one.config == no_gain else _IN_ROUNDS if one.in_play_off else _ONCE
            note = again if lucky[i] else _OUTWEIGHED.format(label=objectives.metric.label) if faster else ""
        found.append(note)
    return found
