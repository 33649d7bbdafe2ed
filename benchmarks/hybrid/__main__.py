"""HyScale-GNN's results in shape, on simulated platforms.

    python -m benchmarks.hybrid management [--platforms 100]
    python -m benchmarks.hybrid ablation
    python -m benchmarks.hybrid scaling
    python -m benchmarks.hybrid model [--platforms 100]

management: seconds per mini-batch after 20 steps of each controller, over those of the best static division, on random
platforms, from random starts and from that division itself. ablation: what hybrid training, dynamic resource management
and prefetching gain over offloading all training, in the paper's set-ups. scaling: throughput with 1 to 16
accelerators. model: by how much the performance model misses what is simulated; its constants and counts are the
simulator's own, so only structural error is shown. All of these are of simulated platforms on a virtual clock: nothing
is timed, and the seeds of random numbers are fixed.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
from rich.console import Console
from rich.table import Table

from a3gnn.layer_cost import COUNTED_PASSES, EQUATION_10_PASSES
from benchmarks.hybrid.ablation import ablation
from benchmarks.hybrid.management import on_random_platform
from benchmarks.hybrid.platforms import ACCELERATORS, DATASETS
from benchmarks.hybrid.probe import model_error
from benchmarks.hybrid.scaling import accelerators_only, hybrid

_DEVICES = (1, 2, 4, 8, 12, 16)
_MODELS = ("gcn", "sage")


def _table(title: str, *columns: str) -> Table:
    table = Table("simulated", *columns, title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _tail(values: Iterable[float]) -> tuple[float, float, float]:
    """Returns the median, the 95th percentile and the largest."""
    found = list(values)
    return statistics.median(found), float(np.percentile(found, 95)), max(found)


def _spread(values: Iterable[float]) -> str:
    return " / ".join(f"{value:.3f}" for value in _tail(values))


def management(platforms: int) -> Table:
    """Returns what controllers reach on random platforms: median, 95th percentile and maximum."""
    found = [on_random_platform(seed) for seed in range(platforms)]
    table = _table(
        f"{platforms} random platforms: seconds over the best static division's (median / 95 % / most)",
        *("bad start", "after 20 steps", "within 5 %", "from the best one", "within 2 %", "changes in the last 5"),
    )
    for rows in zip(*found, strict=True):
        table.add_row(
            rows[0].controller,
            _spread([row.start for row in rows]),
            _spread([row.end for row in rows]),
            str(sum(row.end <= 1.05 for row in rows)),
            _spread([row.from_best for row in rows]),
            str(sum(row.from_best <= 1.02 for row in rows)),
            str(sum(row.changes for row in rows)),
        )
    return table


def ablations() -> Table:
    """Returns speed-ups over offloading in the paper's set-ups."""
    chain = ("hybrid static", "+ management", "+ one-stage", "+ two-stage prefetching")
    even = ("equal threads", "managed from there", "Algorithm 1 from there")
    table = _table("4 accelerators: times as fast as offloading", *chain, *even, "model's error")
    for accelerator, dataset, model in product(ACCELERATORS, DATASETS, _MODELS):
        one = ablation(accelerator, dataset, model)
        others = (one.offload / seconds for seconds in (one.even, one.even_managed, one.even_algorithm1))
        figures = (f"{value:.2f}" for value in (*one.speedups, *others))
        table.add_row(f"{accelerator} {dataset} {model}", *figures, f"{one.predicted / one.static - 1:+.0%}")
    return table


def scaling() -> Table:
    """Returns throughput over that of one accelerator."""
    table = _table("MTEPS over those of one accelerator", *map(str, _DEVICES))
    for label, of in (
        ("accelerators only, load-bound (GPU MAG240M gcn)", lambda n: accelerators_only("GPU", "MAG240M", "gcn", n)),
        ("the same, copies read the host's memory", lambda n: accelerators_only("GPU", "MAG240M", "gcn", n, 1.0)),
        *(
            (
                f"hybrid, FPGA {dataset} {model}",
                lambda n, dataset=dataset, model=model: hybrid("FPGA", dataset, model, n),
            )
            for dataset, model in product(DATASETS, _MODELS)
        ),
    ):
        figures = [of(devices) for devices in _DEVICES]
        table.add_row(label, *(f"{value / figures[0]:.2f}" for value in figures))
    return table


def model(platforms: int) -> Table:
    """Returns how far the performance model is off on random platforms."""
    table = _table(f"{platforms} random platforms: error of the performance model", "median", "95 %", "most")
    for label, passes, shares_memory in (
        ("host memory shared, passes as counted", COUNTED_PASSES, True),
        ("Eq. 6 alone, passes as counted", COUNTED_PASSES, False),
        ("Eq. 6 alone, passes of Eq. 10", EQUATION_10_PASSES, False),
    ):
        found = (model_error(seed, passes, shares_memory=shares_memory) for seed in range(platforms))
        table.add_row(label, *(f"{value:.1%}" for value in _tail(map(abs, found))))
    return table


def main() -> None:
    """Prints one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("management", "ablation", "scaling", "model"))
    parser.add_argument("--platforms", type=int, default=100, help="random platforms (management, model)")
    options = parser.parse_args()
    made: dict[str, Callable[[], Table]] = {
        "management": lambda: management(options.platforms),
        "ablation": ablations,
        "scaling": scaling,
        "model": lambda: model(options.platforms),
    }
    Console(width=160).print(made[options.what]())


if __name__ == "__main__":
    main()
