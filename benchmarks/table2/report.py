"""The table as people read it, and what is stored of it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.table2.rows import NAMES, Goal, Row

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
