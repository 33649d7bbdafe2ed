"""Compares a3gnn with its peers, prints the table of goals and writes benchmarks/results/engine-CPU-DATE.json.

    python -m benchmarks.engine [--quick] [--graphs products arxiv] [--rows load train-sage] [--rounds 5]

`make peers` builds the peers' environments; one that is not there is reported so, and its rows are judged by the
design's figures, scaled by the machine limits that the run measures. docs/benchmarks/engine.md says how everything is
measured.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from a3gnn.storage.cache import cache_root
from benchmarks.engine.client import ROOT
from benchmarks.engine.graphs import GRAPHS, QUICK
from benchmarks.engine.judge import judge
from benchmarks.engine.measure import Effort
from benchmarks.engine.report import default_path, draw, merged, read_report, write_report
from benchmarks.engine.rows import ROWS
from benchmarks.engine.run import Run, run

_QUICK, _SHORT = Effort(2, 4, 2, 1, 5, 5), Effort(2, 8, 3, 2, 20, 15)


def main() -> None:
    """Runs the benchmark, or draws a stored one."""
    options = _options()
    if options.show:
        report = merged([read_report(path) for path in options.show])
        if options.json:
            _keep(options.json, report)
        draw(report, judge(report))
        return
    graphs = [QUICK] if options.quick else [GRAPHS[name] for name in options.graphs]
    effort = _QUICK if options.quick else _SHORT if options.short else Effort(options.rounds)
    peers, cache = options.peers_dir.resolve(), options.cache.resolve()
    report = run(
        Run(graphs, options.rows, effort, peers, cache, not options.no_apart, _say, partial(_keep, options.json))
    )
    _keep(options.json, report)
    draw(report, judge(report))
    _say(f"written to {options.json or default_path(report)}")


def _keep(path: Path | None, report: dict[str, Any]) -> None:
    report["verdicts"] = [verdict.to_dict() for verdict in judge(report)]
    write_report(report, path or default_path(report))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = [row.key for row in ROWS]
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS), metavar="GRAPH")
    parser.add_argument("--rows", nargs="+", choices=keys, default=keys, metavar="ROW", help=", ".join(keys))
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each engine per row (default 5)")
    parser.add_argument("--peers-dir", type=Path, default=ROOT / ".peers", help="what `make peers` built")
    parser.add_argument("--cache", type=Path, default=cache_root(), help="folder for converted graphs")
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument(
        "--quick", action="store_true", help="a small graph and few mini-batches: only checks that everything runs"
    )
    parser.add_argument(
        "--short", action="store_true", help="two rounds of few mini-batches: faster, with a wider spread"
    )
    parser.add_argument("--no-apart", action="store_true", help="leave out start-up, memory and shares of the limits")
    parser.add_argument("--show", type=Path, nargs="+", metavar="JSON", help="draw stored runs and measure nothing")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
