"""The rows of the table, its goals, the table as people read it, and what is stored of it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from a3gnn.figures import Spread
from benchmarks.engine.client import Resident
from benchmarks.table2.ours import Trained

#: The row of each side, by what it is; those of tunes by their priority. A3GNN's T*, M* and A* favor one objective.
NAMES = {
    "pyg": "PyG",
    "default": "default",
    "throughput": "T*",
    "memory": "M*",
    "accuracy": "A*",
    "balanced": "balanced",
    "time": "time",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What one side came to on one graph; each None where it was not measured.

    Attributes:
        graph: The graph's name.
        side: A key of `NAMES`.
        what: The configuration, or why there is nothing.
        epochs_per_s: Epochs per second, evaluation left out, over rounds or seeds.
        anonymous: Peak anonymous memory less that of the idle process, in bytes.
        total: Peak of all memory (PSS) less that of the idle process, in bytes.
        test: Test accuracies, in [0, 1], one per seed.
        seconds: Seconds of training to the best epoch, over the seeds.
    """

    graph: str
    side: str
    what: str
    epochs_per_s: Spread | None = None
    anonymous: int | None = None
    total: int | None = None
    test: tuple[float, ...] = ()
    seconds: Spread | None = None

    @classmethod
    def of_trainings(cls, graph: str, side: str, what: str, found: Sequence[Trained], idle: Resident) -> Row:
        """Returns the row of our trainings, one per seed; the median of their peaks counts."""
        return cls(
            graph=graph,
            side=side,
            what=what,
            epochs_per_s=Spread.of(one.epochs_per_s for one in found),
            anonymous=round(statistics.median(one.anonymous for one in found)) - idle.anonymous,
            total=round(statistics.median(one.total for one in found)) - idle.total,
            test=tuple(one.test_accuracy for one in found),
            seconds=Spread.of(one.seconds for one in found),
        )

    @property
    def test_mean(self) -> float | None:
        """The mean test accuracy."""
        return statistics.fmean(self.test) if self.test else None


@dataclass(frozen=True, slots=True)
class Goal:
    """Something that the table is to show, over all graphs on which both sides were measured.

    Attributes:
        name: What, for people.
        found: What it came to; None where nothing could be compared.
        met: Whether that is enough.
    """

    name: str
    found: float | None
    met: bool


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Returns the goals: the speed of T*, the memory and the speed of M*, and the accuracy of all."""
    return [
        _at_least(
            "T* over the default's speed, geometric mean", _geometric_mean(_ratios(rows, "throughput", "default")), 4
        ),
        _at_least("T* over PyG's speed, geometric mean", _geometric_mean(_ratios(rows, "throughput", "pyg")), 40),
        _at_least(
            "PyG's anonymous memory over that of M*, geometric mean",
            _geometric_mean(_ratios(rows, "pyg", "memory", "anonymous")),
            1 / 0.16,
        ),
        _at_least("M* over PyG's speed, least", min(_ratios(rows, "memory", "pyg"), default=None), 1),
        _at_least("points of test accuracy over the default or PyG, least", min(_points(rows), default=None), -0.5),
    ]


def _at_least(name: str, found: float | None, least: float) -> Goal:
    return Goal(f"{name}, >= {least:.3g}", found, found is not None and found >= least)


def _ratios(rows: Sequence[Row], side: str, other: str, figure: str = "epochs_per_s") -> list[float]:
    """Returns the figure of `side` over that of `other` on each graph where both have it and it is positive."""
    found = {(row.graph, row.side): _number(getattr(row, figure)) for row in rows}
    pairs = [(found.get((graph, side)), found.get((graph, other))) for graph in dict.fromkeys(r.graph for r in rows)]
    return [one / two for one, two in pairs if one and two and one > 0 and two > 0]


def _points(rows: Sequence[Row]) -> list[float]:
    """Returns the points of mean test accuracy between what tunes chose, and the default, or PyG, on each graph."""
    found = {(row.graph, row.side): row.test_mean for row in rows}
    pairs = [
        (mean, found.get((graph, other)))
        for (graph, side), mean in found.items()
        for other in ("default", "pyg")
        if side not in ("default", "pyg")
    ]
    return [100 * (one - two) for one, two in pairs if one is not None and two is not None]


def _number(value: Spread | int | None) -> float | None:
    return value.median if isinstance(value, Spread) else value


def _geometric_mean(ratios: Sequence[float]) -> float | None:
    return statistics.geometric_mean(ratios) if ratios else None


_MIB = 2**20


def graph_table(rows: Sequence[Row]) -> Table:
    """Returns the table of one graph's rows."""
    shown = Table(
        *("", "epochs/s", "x default", "x PyG", "anonymous MiB", "of PyG", "PSS MiB", "of PyG", "test accuracy"),
        *("s to best epoch", "configuration"),
        title=rows[0].graph,
    )
    sides = {row.side: row for row in rows}
    default, pyg = sides.get("default"), sides.get("pyg")
    for row in rows:
        speed = "" if row.epochs_per_s is None else row.epochs_per_s.describe(".3g")
        shown.add_row(
            *(NAMES[row.side], speed, _times(row, default), _times(row, pyg)),
            *(_mib(row.anonymous), _share(row, pyg, "anonymous"), _mib(row.total), _share(row, pyg, "total")),
            *(_accuracy(row), "" if row.seconds is None else row.seconds.describe(".3g"), row.what),
        )
    return shown


def goal_lines(found: Sequence[Goal]) -> list[str]:
    """Returns a line per goal."""
    return [
        f"{goal.name}: {'not measured' if goal.found is None else f'{goal.found:.2f}, {_verdict(goal)}'}"
        for goal in found
    ]


def stored(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Returns `rows` as JSON types."""
    spreads = ("epochs_per_s", "seconds")
    return [
        dataclasses.asdict(row)
        | {name: None if (found := getattr(row, name)) is None else found.to_dict() for name in spreads}
        for row in rows
    ]


def _verdict(goal: Goal) -> str:
    return "met" if goal.met else "not met"


def _times(row: Row, other: Row | None) -> str:
    own, base = row.epochs_per_s, None if other is None else other.epochs_per_s
    return "" if own is None or base is None else f"{own.median / base.median:.2f}"


def _share(row: Row, pyg: Row | None, name: str) -> str:
    own, base = getattr(row, name), None if pyg is None else getattr(pyg, name)
    return "" if own is None or not base else f"{own / base:.0%}"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / _MIB:,.0f}"


def _accuracy(row: Row) -> str:
    if row.test_mean is None:
        return ""
    deviation = f" ± {100 * statistics.stdev(row.test):.2f}" if len(row.test) > 1 else ""
    return f"{100 * row.test_mean:.2f}{deviation}"
