"""How a3gnn stands to each peer on a row and a graph: measured, or by the design's figures scaled to this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.engine.figures import scaled_ms
from benchmarks.engine.rows import Row
from benchmarks.engine.summary import Ratio, Spread, flat_spread, ratio

Basis = Literal["measured", "scaled"]
PYG_LIB = "pyg-lib"


@dataclass(frozen=True, slots=True)
class Standing:
    """One peer beside a3gnn.

    Attributes:
        peer: Its label.
        ms: Its milliseconds per mini-batch.
        ratio: Its time over a3gnn's.
        basis: measured in this run; or scaled: the design's figure times the ratio of that machine's limits to this
            one's, where it could not be measured.
        missing: Why it was not measured, or "".
    """

    peer: str
    ms: float
    ratio: Ratio
    basis: Basis
    missing: str = ""


def ms_of(outcome: Mapping[str, Any]) -> Spread | None:
    """Returns the milliseconds of a contestant's stored outcome over all rounds; None if there is nothing."""
    rounds = [one["ms"] for one in outcome["rounds"]]
    return flat_spread(rounds) if rounds else None


def standings(report: Mapping[str, Any], row: Row, graph: str) -> dict[str, Standing]:
    """Returns the peers of `row` on `graph` by label; those with neither a measurement nor a figure are left out.

    pyg-lib, which the package index does not have, is one more peer of the sampling and loading rows.

    Args:
        report: The stored document.
        row: A row that a3gnn was measured on.
        graph: Name of the graph.
    """
    outcomes = report["rows"][row.key][graph]
    ours = [one["ms"] for one in outcomes["a3gnn"]["rounds"]]
    if not ours:
        return {}
    found = {}
    labels = [label for label in row.contestants if label != "a3gnn"]
    for label in [*labels, *([PYG_LIB] if row.work.kind != "train" else [])]:
        outcome = outcomes.get(label, {"rounds": [], "missing": "not on the package index"})
        theirs = [one["ms"] for one in outcome["rounds"]]
        if theirs:
            found[label] = Standing(label, flat_spread(theirs).median, ratio(ours, theirs), "measured")
            continue
        limits = report["limits"]
        milliseconds = scaled_ms(row.key, graph, label, limits["random_reads_per_s"], limits["copy_bytes_per_s"])
        if milliseconds is not None:
            rounds = [[milliseconds]] * len(ours)
            found[label] = Standing(label, milliseconds, ratio(ours, rounds), "scaled", outcome["missing"])
    return found
