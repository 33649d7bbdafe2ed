"""Hybrid training on simulated platforms: how well controllers divide the work, and how far the model is off.

    python -m benchmarks.hybrid management|model [--platforms 100]

management: seconds per mini-batch after 20 steps of each controller, over those of the best static division, on random
platforms, from random starts and from that division itself. model: by how much the performance model misses what is
simulated; its constants and counts are the simulator's own, so only structural error is shown. Platforms run on a
virtual clock: nothing is timed, and the seeds of random numbers are fixed.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable

import numpy as np
from rich.console import Console
from rich.table import Table

from a3gnn.layer_cost import COUNTED_PASSES, EQUATION_10_PASSES
from benchmarks.hybrid.management import on_random_platform
from benchmarks.hybrid.probe import model_error


def _tail(values: Iterable[float]) -> tuple[float, float, float]:
    """Returns the median, the 95th percentile and the largest."""
    found = list(values)
    return statistics.median(found), float(np.percentile(found, 95)), max(found)


def _spread(values: Iterable[float]) -> str:
    return " / ".join(f"{value:.3f}" for value in _tail(values))


def management(platforms: int) -> Table:
    """Returns what controllers reach on random platforms: median, 95th percentile and maximum."""
    table = Table(
        *("simulated", "bad start", "after 20 steps", "within 5 %", "from the best one", "within 2 %"),
        "changes in the last 5",
        title=f"{platforms} random platforms: seconds over the best static division's (median / 95 % / most)",
    )
    for rows in zip(*map(on_random_platform, range(platforms)), strict=True):
        table.add_row(
            rows[0].controller,
            _spread(row.start for row in rows),
            _spread(row.end for row in rows),
            str(sum(row.end <= 1.05 for row in rows)),
            _spread(row.from_best for row in rows),
            str(sum(row.from_best <= 1.02 for row in rows)),
            str(sum(row.changes for row in rows)),
        )
    return table


def model(platforms: int) -> Table:
    """Returns how far the performance model is off on random platforms."""
    title = f"{platforms} random platforms: error of the performance model"
    table = Table("simulated", "median", "95 %", "most", title=title)
    for label, passes, shares_memory in (
        ("host memory shared, passes as counted", COUNTED_PASSES, True),
        ("Eq. 6 alone, passes as counted", COUNTED_PASSES, False),
        ("Eq. 6 alone, passes of Eq. 10", EQUATION_10_PASSES, False),
    ):
        errors = (abs(model_error(seed, passes, shares_memory=shares_memory)) for seed in range(platforms))
        table.add_row(label, *(f"{value:.1%}" for value in _tail(errors)))
    return table


def main() -> None:
    """Prints one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("management", "model"))
    parser.add_argument("--platforms", type=int, default=100, help="how many")
    options = parser.parse_args()
    table = (management if options.what == "management" else model)(options.platforms)
    for column in table.columns[1:]:
        column.justify = "right"
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
