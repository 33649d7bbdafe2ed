"""The tables of what knobs gain, and what is stored of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from a3gnn.figures import Spread
from benchmarks.levers.bench import COMBINED, MEASURES, Measured

#: A knob that gains less on every graph does not pay for what it adds to the search.
WORTH = 1.10


def graph_table(name: str, rows: Sequence[Measured]) -> Table:
    """Returns the table of one graph: a line per value of a knob, and one per combination."""
    table = Table("knob", "value", *(f"{measure} x" for measure in MEASURES), "points", "beside", title=name)
    for variant, gains, _ in rows:
        ratios = (_ratio(getattr(gains, measure)) for measure in MEASURES)
        other = [f"{key} {value}" for key, value in variant.changes().items() if key != variant.knob]
        beside = "" if variant.knob.startswith(COMBINED) else ", ".join(other)
        points = "" if gains.points is None else f"{gains.points:+.2f}"
        failure = gains.failure.strip().rpartition("\n")[2][:60]
        table.add_row(variant.knob, variant.value, *ratios, failure or points, beside)
    return table


def summary_table(found: Mapping[str, Sequence[Measured]]) -> Table:
    """Returns the largest gain of each knob alone on any graph, and whether it is worth its place in the space."""
    table = Table("knob", *(f"{measure} x (on)" for measure in MEASURES), f"gains {WORTH - 1:.0%} on")
    for knob, best in best_gains(found).items():
        cells = [f"{gain:.2f} ({graph})" if gain else "none" for gain, graph in (best[name] for name in MEASURES)]
        worth = worth_on(found, knob)
        table.add_row(knob, *cells, ", ".join(worth) or "none: leaves the default space")
    return table


def best_gains(found: Mapping[str, Sequence[Measured]]) -> dict[str, dict[str, tuple[float, str]]]:
    """Returns per knob and measure the largest gain that counts, and the graph that it is on; 0 and "" for none."""
    best: dict[str, dict[str, tuple[float, str]]] = {}
    for graph, rows in found.items():
        for variant, _, gains in rows:
            own = best.setdefault(variant.knob, dict.fromkeys(MEASURES, (0.0, "")))
            for name in MEASURES:
                own[name] = max(own[name], (gains.counting(name), graph))
    return best


def worth_on(found: Mapping[str, Sequence[Measured]], knob: str) -> list[str]:
    """Returns the graphs on which a value of `knob` alone gains `WORTH` in any measure."""
    return [
        graph
        for graph, rows in found.items()
        if any(one.alone.counting(name) >= WORTH for one in rows if one.variant.knob == knob for name in MEASURES)
    ]


def stored(rows: Sequence[Measured]) -> list[dict[str, Any]]:
    """Returns `rows` as JSON types."""
    return [
        {
            **dataclasses.asdict(variant),
            **{name: None if (found := getattr(gains, name)) is None else found.to_dict() for name in MEASURES},
            "alone": {name: None if (found := getattr(alone, name)) is None else found.to_dict() for name in MEASURES},
            "points": gains.points,
            "failure": gains.failure,
        }
        for variant, gains, alone in rows
    ]


def _ratio(spread: Spread | None) -> str:
    return "" if spread is None else spread.describe(".2f")
