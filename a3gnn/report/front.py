"""The measured front of a tune, computed once; table, CSV, figure and notebook are views of it."""

from __future__ import annotations

import dataclasses
import json
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from a3gnn._imports import optional
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ConfigError
from a3gnn.figures import Figures
from a3gnn.limits import Breach, Limits
from a3gnn.measurement import METRICS
from a3gnn.metric import Metric
from a3gnn.objectives import PRESETS, Objectives, Priority
from a3gnn.pareto import non_dominated
from a3gnn.report.rows import REJECTED, FrontRow, FrontRows
from a3gnn.report.table import aligned, csv_text, html_table
from a3gnn.report.text import BASELINE_WORDS, describe_config, wrapped
from a3gnn.units import count, format_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


#: Note of a faster feasible configuration that was not chosen.
_OUTWEIGHED = "its memory or {label} outweighs its speed"
#: Note of a configuration that lost to the default because no gain was measurable.
NO_GAIN = "no measurable gain over the baseline"
#: Notes of configurations with a better score that were not chosen.
_IN_ROUNDS = "measured less often than the choice, and the best of such measurements is often a lucky one"
_ONCE = "measured once, and the best of many single measurements is often a lucky one"
#: Notes of configurations that look better than the choice, but were measured too seldom to compare.
TOO_SELDOM = (_IN_ROUNDS, _ONCE)
#: Label of rows that were not timed in the verification, and the footnote of a table with both kinds.
_BEFORE = "measured once"
_TIMED_BEFORE = "Rows measured once ran before the verification; they are shown at the machine's speed during it."
_INDENT = " " * 4
#: Mark of rows on the front.
_MARK = "*"


class MeasuredConfig(NamedTuple):
    """A measured configuration."""

    config: TrainConfig
    figures: Figures
    predicted: dict[str, dict[str, float]] | None  # its prediction before it ran, by metric and bound; None without one
    note: str = ""  # why it lost
    in_play_off: bool = False  # whether its speed was measured in the verification
    outside: bool = False  # whether it may not be chosen
    limits: Limits | None = None  # its limits, if they are not those of all

    @property
    def may_compare(self) -> bool:
        """Whether it may be chosen, and was not rejected in the verification."""
        return not (self.outside or self.note.startswith(REJECTED))


@dataclass(frozen=True, slots=True, repr=False)
class Front(FrontRows):
    """All measured configurations of a tune, with the best of each priority labeled.

    The front compares only comparable rows. It leaves out rows that break a limit, were rejected in the verification,
    or may not be chosen. Once a tune has chosen, it also leaves out rows that look better than the choice but were
    measured less often: the best of many such measurements is often lucky. If the default was chosen for lack of a
    measurable gain, it leaves out the configuration that lost to the default, if its figures dominate. So the choice is
    always on the front.

    Attributes:
        rows: Rows, fastest first by `speed`; rows that miss the target come last.
        memory: The metric on the memory axis.
        limit_bytes: The limit on that memory, or None.
        speed: The metric on the speed axis: throughput_epochs_per_s or seconds_to_accuracy.
        target: The validation quality to reach, or None.
        metric: The metric of that quality.
    """

    def __repr__(self) -> str:
        """Returns a summary in a line; `to_dataframe`, `plot` and notebooks show the rows."""
        on_front = sum(row.on_front for row in self.rows)
        return f"Front({count(len(self.rows), 'configuration')}, {on_front} of them on the front)"

    @classmethod
    def of(
        cls,
        measured: Sequence[MeasuredConfig],
        objectives: Objectives,
        chosen: TrainConfig | None = None,
        reference_s: float | None = None,
        no_gain: TrainConfig | None = None,
        default: TrainConfig | None = None,
    ) -> Self:
        """Returns the front of `measured` under the limits of `objectives`, with the best of every priority labeled.

        Args:
            measured: All measured configurations.
            objectives: The limits and the priority.
            chosen: The choice, which keeps its limits because its verification found so; None before there is one.
            reference_s: The default's seconds to the target, if it may be chosen. A priority that weighs speed then
                labels no configuration that is later.
            no_gain: The configuration that lost to the default for lack of a measurable gain, or None.
            default: The default as this tune measures it, such as with features on disk; by default `TrainConfig()`.
        """
        limits, default = objectives.limits, default or TrainConfig().canonical()
        broken = [() if one.config == chosen else (one.limits or limits).broken_by(one.figures) for one in measured]
        lucky = _lucky(measured, objectives, chosen, no_gain, default)
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
            said += ["default"] if config == default else []
            labels = (*said, *best.get(i, ()))
            flags = not broken[i], bool(on_front[i])
            row = FrontRow(config, figures, predicted, *flags, labels, broken[i], notes[i], in_play_off, compared[i])
            rows.append(row)
        order = np.argsort(objectives.measured_costs([row.measured for row in rows])[:, 0], kind="stable")
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
        return [row.record() | dict.fromkeys(self._searched) | dict(row.config.searched) for row in self.rows]

    def csv(self) -> str:
        """Returns `records` as CSV; unknown values are empty."""
        return csv_text([*FrontRow.columns(), *self._searched], self.records())

    def to_dataframe(self) -> DataFrame:
        """Returns `records` as a pandas DataFrame, a row per measured configuration.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        pandas = optional("pandas", "dataframe", "A front as a DataFrame")
        frame: DataFrame = pandas.DataFrame(self.records(), columns=[*FrontRow.columns(), *self._searched])
        return frame

    @property
    def _searched(self) -> list[str]:
        """Names of a search that a row has another value of than the task."""
        return sorted({name for row in self.rows for name, _ in row.config.searched})

    def plot(self, title: str = "") -> Figure:
        """Returns the front as a figure: speed against memory, colored by validation quality (`front_figure`).

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        from a3gnn.report.figure import front_figure

        return front_figure(self, title)

    def _repr_html_(self) -> str:
        """Returns the table that `a3gnn front` prints, as HTML for a notebook."""
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
            missing = "it has no front.json" if Path(folder).exists() else "it does not exist"
            raise ConfigError(
                f"{folder} must be the --out folder of a finished a3gnn tune, but {missing}; run a3gnn tune "
                f"--out {shlex.quote(str(folder))} first"
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
    default: TrainConfig,
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
    for pick in PRESETS:
        priority = Priority.parse(pick)
        latest_s = reference_s if priority.in_time else None
        kept = [i for i, figures in enumerate(feasible) if not figures.later_than(latest_s)]
        if not kept or (priority.time and not reached):
            continue
        judged = dataclasses.replace(objectives, priority=priority)
        index = kept[judged.best_index([feasible[i] for i in kept])]
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


class FrontCells(NamedTuple):
    """The texts of a table of a front.

    Attributes:
        title: Title above the table.
        headings: One per column: what a row is, its figures, its configuration, and why it was not chosen.
        rows: One text per column.
        feasible: Whether each row keeps the limits.
        on_front: Whether each row is on the front.
        footnote: Footnote below the table, or None.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    feasible: tuple[bool, ...]
    on_front: tuple[bool, ...]
    footnote: str | None

    @property
    def figures(self) -> range:
        """The columns that hold figures."""
        return range(1, len(self.headings) - 2)


def front_cells(front: Front, everything: bool = False) -> FrontCells:
    """Returns the cells of the front's rows, of labeled rows, and of rows with a reason against them.

    It leaves out other rows that were measured too seldom to compare. `everything` returns all measured rows. The
    footnote counts the rows left out, and explains the label of rows measured once.
    """
    shown = [row for row in front.rows if everything or _is_shown(row)]
    seldom = sum(row.note in TOO_SELDOM and row not in shown for row in front.rows)
    mixed = len({row.in_play_off for row in shown}) > 1
    headings, places = zip(*_columns(front), strict=True)
    rows = []
    for row in shown:
        names = ["baseline" if label == "default" else label for label in row.labels]  # files name it `default`
        labels = ", ".join([*names, _BEFORE] if mixed and not row.in_play_off else names)
        why = ", ".join(filter(None, [row.describe_broken(), row.note]))
        rows.append((labels, *(front.texts(row.measured)[place] for place in places), describe_config(row.config), why))
    return FrontCells(
        title=_title(front),
        headings=("", *headings, "configuration", "why not"),
        rows=tuple(rows),
        feasible=tuple(row.feasible for row in shown),
        on_front=tuple(row.on_front for row in shown),
        footnote=_footnote(mixed, seldom),
    )


def _is_shown(row: FrontRow) -> bool:
    return row.on_front or bool(row.labels) or (bool(row.note) and row.note not in TOO_SELDOM)


def _footnote(mixed: bool, seldom: int) -> str | None:
    """Returns the footnote of a table, or None if there is nothing to explain."""
    lines = [_TIMED_BEFORE] if mixed else []
    if seldom:
        lines.append(
            f"{count(seldom, 'more configuration')} looked better in too few measurements to compare: the best of many "
            f"single measurements is often a lucky one."
        )
    return " ".join(lines) or None


def _columns(front: Front) -> list[tuple[str, int]]:
    """Returns the headings of the figures, the front's speed first, each with its place in `FigureTexts`."""
    columns = [("epochs/s", 0), ("memory", 2), (f"validation {front.metric.label}", 3)]
    if front.times_accuracy:
        columns.insert(0 if front.by_seconds else 1, (front.seconds_heading, 1))
    return columns


def _title(front: Front) -> str:
    best = sum(row.on_front for row in front.rows)
    limit = f", limit {format_size(front.limit_bytes)}" if front.limit_bytes else ""
    kind = "device memory" if front.memory == "peak_device_bytes" else "host memory"
    return f"Pareto front ({_MARK}): {best} of {len(front.rows)} measured configurations ({kind}{limit})"


def front_html(front: Front) -> str:
    """Returns the table of `front_cells` as HTML; rows that break a limit are pale."""
    cells = front_cells(front)
    rows = [
        (" ".join(filter(None, (_MARK * best, row[0]))), *row[1:])
        for row, best in zip(cells.rows, cells.on_front, strict=True)
    ]
    table = html_table(cells.headings, rows, cells.figures, [i for i, kept in enumerate(cells.feasible) if not kept])
    note = "" if cells.footnote is None else f"<p><small>{escape(cells.footnote)}</small></p>"
    return f"<p><b>{escape(cells.title)}</b></p>\n{table}\n{note}"


def front_lines(front: Front, everything: bool = False) -> Iterator[str]:
    """Yields the rows of `front_cells`: figures in columns, then labels with the configuration, then why not."""
    cells = front_cells(front, everything)
    headings, *lines = aligned([[row[i] for i in cells.figures] for row in (cells.headings, *cells.rows)], 0)
    yield from wrapped(cells.title)
    yield ""
    yield f"  {headings}"
    for row, figures, best in zip(cells.rows, lines, cells.on_front, strict=True):
        label, *_, words, why = row
        yield f"{_MARK if best else '':<2}{figures}"
        words = "" if words == BASELINE_WORDS else words  # the label says so
        yield from wrapped(": ".join(filter(None, (label, words))), _INDENT, _INDENT * 2)
        if why:
            yield from wrapped(f"why not: {why}", _INDENT, _INDENT * 2)
    if cells.footnote is not None:
        yield ""
        yield from wrapped(cells.footnote)


@dataclass(frozen=True, slots=True)
class PredictionErrors:
    """Errors of one metric over the trials that were predicted and measured."""

    median: float  # median of |predicted - measured| / measured
    covered: int  # trials whose measured value lies in the predicted interval
    count: int  # trials


def prediction_errors(front: Front) -> dict[str, PredictionErrors]:
    """Returns the errors of each metric of `METRICS` that was predicted and is not zero in every measurement.

    Accuracies that are lower bounds, and missed targets, have no error and are left out.
    """
    found = {}
    for metric in METRICS:
        pairs = [
            (row.predicted[metric], float(getattr(row.measured, metric)))
            for row in front.rows
            if row.predicted is not None
            and metric in row.predicted  # older files have other metrics
            and getattr(row.measured, metric)
            and (row.measured.complete or metric != "val_accuracy")
        ]
        if pairs:
            errors = [abs(predicted["mean"] - value) / abs(value) for predicted, value in pairs]
            covered = sum(predicted["low"] <= value <= predicted["high"] for predicted, value in pairs)
            found[metric] = PredictionErrors(statistics.median(errors), covered, len(pairs))
    return found
