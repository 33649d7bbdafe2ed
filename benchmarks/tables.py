"""Writes stored results into the tables of docs/benchmarks/.

    python -m benchmarks.tables

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. A test compares the pages with the results.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine.client import ROOT
from benchmarks.engine.judge import Standing, ms_of, standings
from benchmarks.engine.report import read_report
from benchmarks.engine.rows import CONTESTANTS, ROWS

RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "docs" / "benchmarks" / "engine.md", ROOT / "docs" / "benchmarks" / "tunes.md")
ENGINE = RESULTS / "engine-amd-epyc-2026-11-21.json"
LIVE = RESULTS / "live_tunes_own_caches.json"
_PEERS = tuple(label for label in CONTESTANTS if label != "a3gnn")
_WORK = {
    "sample-25-10": "sample (25,10), one thread",
    "sample-15-10-5": "sample (15,10,5), one thread",
    "biased": "sample with a bias, static cache",
    "load": "sample and gather",
}
_MARKED = re.compile(r"(<!-- table: (\w+) -->\n\n)(?:\|.*\n)*\n?(<!-- end -->)")


def engine_times() -> list[str]:
    """Returns the milliseconds per mini-batch beside each peer, as lines of a Markdown table."""
    report = read_report(ENGINE)
    rows = [
        [_WORK.get(row.key, row.label), graph, _digits(ours.median), *(_peer(found.get(label)) for label in _PEERS)]
        for row in ROWS
        for graph, outcomes in report["rows"].get(row.key, {}).items()
        if (ours := ms_of(outcomes["a3gnn"])) and (found := standings(report, row, graph)) is not None
    ]
    return _table(("work", "graph", "a3gnn", *_PEERS), rows, names=2)


def engine_memory() -> list[str]:
    """Returns the peak memory of training GraphSAGE, as lines of a Markdown table."""
    rows = [
        [graph, *(f"{_gb(engines['a3gnn'])}" if label == "a3gnn" else _memory(engines, label) for label in _SHOWN)]
        for graph, engines in read_report(ENGINE)["memory"].items()
    ]
    return _table(("graph", *_SHOWN), rows, names=1)


_SHOWN = ("a3gnn", "DGL", "PyG")


def live_tunes() -> list[str]:
    """Returns the gain of each stored tune by a3gnn's own rule over the baseline, as lines of a Markdown table."""
    found = [row for row in json.loads(LIVE.read_text(encoding="utf-8"))["rows"] if row["rule"] == "a3gnn"]
    rows = [[row["graph"], str(row["seed"]), str(row["trials"]), *map(_gain, _figures(row))] for row in found]
    means = [statistics.geometric_mean(values) for values in zip(*map(_figures, found), strict=True)]
    rows.append(["geometric mean", "", "", *map(_gain, means)])
    for line, row in zip(rows, found, strict=False):
        line.append(f"{row['points']['median']:+.2f}")
    rows[-1].append("")
    return _table(("graph", "seed", "trials", "time to target", "epochs/s", "memory", "points"), rows, names=1)


TABLES: dict[str, Callable[[], list[str]]] = {
    "engine_times": engine_times,
    "engine_memory": engine_memory,
    "live_tunes": live_tunes,
}


def filled(page: str) -> str:
    """Returns the text of a page with each marked table made anew."""
    return _MARKED.sub(lambda found: "\n".join([found[1][:-1], *TABLES[found[2]](), "", found[3]]), page)


def main() -> None:
    """Writes the tables into the pages."""
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(Path(page).relative_to(ROOT))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> list[str]:
    line = ["---"] * names + ["---:"] * (len(head) - names)
    return [f"| {' | '.join(cells)} |" for cells in (head, line, *rows)]


def _figures(row: Mapping[str, Any]) -> list[float]:
    return [float(row[name]["median"]) for name in ("time", "throughput", "memory")]


def _gain(value: float) -> str:
    return f"{value:.2f}x"


def _peer(standing: Standing | None) -> str:
    if standing is None:
        return ""
    return f"{'~' if standing.basis == 'scaled' else ''}{_digits(standing.ms)} ({_digits(standing.ratio.value)}x)"


def _gb(engine: Mapping[str, Any]) -> str:
    return f"{engine['peak'] / 1e9:.2f} GB"


def _memory(engines: Mapping[str, Any], label: str) -> str:
    return f"{_gb(engines[label])} ({engines[label]['peak'] / engines['a3gnn']['peak']:.1f}x)"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


if __name__ == "__main__":
    main()
