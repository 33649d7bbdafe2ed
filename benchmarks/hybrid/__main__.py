"""HyScale-GNN's results in shape, on simulated platforms, and real trainers on this machine's processors.

    python -m benchmarks.hybrid management [--platforms 100] [--learned FOLDER]
    python -m benchmarks.hybrid ablation
    python -m benchmarks.hybrid scaling
    python -m benchmarks.hybrid model [--platforms 100]
    python -m benchmarks.hybrid real [GRAPH ...] [--models sage gcn] [--rounds 5] [--refresh] [--json FILE]
    python -m benchmarks.hybrid prefetch [GRAPH] [--trainers cpu:1,cpu:1] [--rounds 5]
    python -m benchmarks.hybrid adapt [--trainers cpu:1,cpu:1] [--epochs 12] [--pinned]
    python -m benchmarks.hybrid adapt --one [--epochs 200]

management: seconds per mini-batch after 20 steps of each controller, over those of the best static division, on random
platforms, from random starts and from that division itself; --learned judges what benchmarks.hybrid.learn has trained
beside them. ablation: what hybrid training, dynamic resource management
and prefetching gain over offloading all training, in the paper's set-ups. scaling: throughput with 1 to 16
accelerators. model: by how much the performance model misses what is simulated; its constants and counts are the
simulator's own, so only structural error is shown. All of these are of simulated platforms on a virtual clock: nothing
is timed, and the seeds of random numbers are fixed.

real: measured on this machine's processors. One trainer with two threads beside two with one each, whose epochs
alternate; and by how much the performance model, with the constants of the hardware probe (measured anew by
--refresh), misses what the stages of real trainers take. GRAPH is the name of a file in the folder of real graphs
($A3GNN_DATA), or anything that `Graph.load` takes.

prefetch: seconds per mini-batch of real trainers by who is how far ahead, an epoch of each in turns; and the share of
them that it takes to record what stages take.

adapt: seconds per mini-batch of real trainers with `--adapt` and without, an epoch each in turns, undisturbed, while
another process takes a core, and after that; beside them the best of a few static divisions. With --one the same of one
trainer, beside the best static mode and workers, and as memory gets scarce; and what it costs over pairs of fresh
trainers. It says something only of a machine on which nothing else runs.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.table import Table

from a3gnn.layer_cost import COUNTED_PASSES, EQUATION_10_PASSES, OPERATORS
from benchmarks.hybrid.ablation import ablation
from benchmarks.hybrid.adapt import adapt, described
from benchmarks.hybrid.adapt_one import table_of_one
from benchmarks.hybrid.management import on_random_platform
from benchmarks.hybrid.model_error import model_error
from benchmarks.hybrid.platforms import ACCELERATORS, DATASETS
from benchmarks.hybrid.prefetch import GRAPH, prefetch_table
from benchmarks.hybrid.real_tables import GRAPHS, real_tables
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


def management(platforms: int, learned: Path | None = None) -> Table:
    """Returns what controllers reach on random platforms: median, 95th percentile and maximum."""
    found = [on_random_platform(seed, learned) for seed in range(platforms)]
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


def adaptations(names: str, epochs: int, *, pinned: bool) -> Group:
    """Returns what `--adapt` costs and gains in each phase, and what its log says."""
    table = Table(
        *("real", "without", "with --adapt", "with / without", "best static", "recovered", "shares", "changes"),
        title=f"{names}: {described(pinned=pinned)}",
    )
    lines: list[str] = []
    for one in adapt(names, epochs, pinned=pinned):
        middle, low, high = one.ratio
        best = "" if one.best_s is None else f"{1e3 * one.best_s:.2f} ms by {','.join(map(str, one.best))}"
        table.add_row(
            one.phase,
            f"{1e3 * one.fixed_s:.2f} ms",
            f"{1e3 * one.adapted_s:.2f} ms",
            f"{middle:.3f} ({low:.3f} to {high:.3f})",
            best,
            "" if one.recovered is None else f"{one.recovered:.0%}",
            ",".join(map(str, one.shares)),
            str(one.changes),
        )
        lines += one.lines
    return Group(table, *lines)


def main() -> None:
    """Prints one of the tables, or those of real."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("management", "ablation", "scaling", "model", "real", "prefetch", "adapt"))
    parser.add_argument("graphs", metavar="GRAPH", nargs="*", help=f"graphs (real): {' '.join(GRAPHS)} by default")
    parser.add_argument("--platforms", type=int, default=100, help="random platforms (management, model)")
    parser.add_argument("--learned", type=Path, help="folder of a network, judged as well (management)")
    parser.add_argument("--models", nargs="+", choices=sorted(OPERATORS), default=_MODELS, help="models (real)")
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each division, or schedule (real, prefetch)")
    parser.add_argument("--refresh", action="store_true", help="probe the machine anew (real)")
    parser.add_argument("--json", type=Path, help="write what was measured (real)")
    parser.add_argument("--trainers", default="cpu:1,cpu:1", help="two or more (adapt, prefetch)")
    parser.add_argument("--one", action="store_true", help="one trainer (adapt)")
    parser.add_argument("--epochs", type=int, help="of each phase that count (adapt); 12, with --one 200")
    parser.add_argument("--pinned", action="store_true", help="each trainer on a core of its own (adapt)")
    options = parser.parse_args()
    made: dict[str, Callable[[], Table | Group]] = {
        "management": lambda: management(options.platforms, options.learned),
        "ablation": ablations,
        "scaling": scaling,
        "model": lambda: model(options.platforms),
        "adapt": lambda: (
            table_of_one(options.epochs or 200)
            if options.one
            else adaptations(options.trainers, options.epochs or 12, pinned=options.pinned)
        ),
    }
    console = Console(width=160)
    if options.what == "real":
        for table in real_tables(options.graphs, options.models, options.rounds, options.refresh, options.json):
            console.print(table)
        return
    if options.what == "prefetch":
        graphs = options.graphs or [GRAPH]
        console.print(*(prefetch_table(graph, options.trainers, options.rounds) for graph in graphs))
        return
    if options.graphs:
        parser.error(f"GRAPH is for real and prefetch, got {' '.join(options.graphs)} for {options.what}")
    console.print(made[options.what]())


if __name__ == "__main__":
    main()
