"""Measures what each knob gains alone over the default, and the best of them together, on some graphs.

    python -m benchmarks.levers GRAPH ... [--seeds 3] [--knobs NAME ...] [--folder runs/levers] [--json FILE]

Every value of every knob of the default space is measured beside the default, through the product's own profiling: the
default trains until it stops rising, the others as long, and right after each one the default is timed again, so that
both are from the same minutes. A knob that is idle in the default is varied where one other change wakes it, and what
it gains itself is told against that change alone. Then the best values are combined greedily, for throughput and for
seconds to accuracy.

Measurements are kept in FOLDER/profiles.sqlite, what was compared in FOLDER/cells.jsonl: the same command goes on where
it was interrupted. A knob that gains under 10 % in throughput and memory at the default's accuracy (less a point), and
in the seconds to it, on every graph, is named: it does not pay for what it adds to the search.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.machine.probe import probe_hardware, within_peaks
from a3gnn.profiling.executor import LocalExecutor, TrialExecutor
from a3gnn.profiling.request import CurvePlan, TrialPlan
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.task import Task
from benchmarks.engine.graphs import spec_of
from benchmarks.levers.bench import COMBINED, Gains, LeverBench, Measured, Unmeasurable, Variant, combine, single_knobs
from benchmarks.levers.report import graph_table, stored, summary_table
from benchmarks.report import ResultLines, write_report


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("graphs", nargs="+", metavar="GRAPH", help="a real graph's name, or what --dataset takes")
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--model", default="sage", help="sage, gcn, gat or gin")
    made.add_argument("--hidden", type=int, default=256)
    made.add_argument("--fanouts", type=int, nargs="+", default=[25, 10])
    made.add_argument("--knobs", nargs="+", default=[], choices=[knob.name for knob in KNOBS], metavar="NAME")
    made.add_argument("--seconds", type=float, default=60.0, help="that the default trains at most")
    made.add_argument("--folder", type=Path, default=Path("runs/levers"), help="where what is measured is kept")
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    made.add_argument(
        "--quick", action="store_true", help="one seed, one value per knob, short: its figures mean nothing"
    )
    return made


def plan_of(options: argparse.Namespace) -> TrialPlan:
    """Returns how the default is measured."""
    if options.quick:
        return TrialPlan(CurvePlan(2.0, until_plateau=True), warmup_batches=1, timed_seconds=0.2, windows=1)
    return TrialPlan(CurvePlan(options.seconds, until_plateau=True), timeout_s=max(600.0, 10 * options.seconds))


def measure_graph(bench: LeverBench, options: argparse.Namespace) -> list[Measured]:
    """Returns every value of every knob alone, and the combinations, with what they gain."""
    variants = single_knobs(bench.space, tuple(options.knobs), farthest=options.quick)
    singles = []
    for variant, cells in zip(variants, bench.measure(variants), strict=True):
        awake = variant.base != TrainConfig()
        base = bench.measure([Variant(variant.knob, "base", variant.base)])[0] if awake else ()
        singles.append(Measured(variant, Gains.of(cells), Gains.of(cells, base)))
    together = (combine(bench, singles, measure) for measure in ("throughput", "time"))
    return [*singles, *(one for one in together if one is not None)]


def run(
    options: argparse.Namespace,
    executor: TrialExecutor,
    store: ProfileStore,
    hardware: Hardware,
    console: Console,
) -> dict[str, Sequence[Measured]]:
    """Returns what was measured on each graph, printed as it comes; a graph without a default is said and left out."""
    task = Task(model=options.model, hidden_channels=options.hidden, fanouts=tuple(options.fanouts))
    cells, found = ResultLines(options.folder / "cells.jsonl"), dict[str, Sequence[Measured]]()
    say: Callable[[str], None] = lambda line: console.print(line, markup=False)  # noqa: E731
    for spec in options.graphs:
        graph = Graph.load(spec_of(spec)).on_disk()
        seeds = 1 if options.quick else options.seeds
        try:
            bench = LeverBench(graph, task, seeds, hardware, plan_of(options), store, executor, cells, say)
        except Unmeasurable as reason:
            say(f"{graph.name}: {reason}")
            continue
        found[bench.name] = measure_graph(bench, options)
        console.print(graph_table(bench.name, found[bench.name]))
    return found


def main() -> None:
    """Prints a table per graph and the summary."""
    options, console = parser().parse_args(), Console(width=180, highlight=False)
    if options.quick:  # never to be taken for results
        options.folder /= "quick"
    options.folder.mkdir(parents=True, exist_ok=True)
    with ProfileStore.open(options.folder / "profiles.sqlite") as store, LocalExecutor(console.print) as executor:
        hardware = within_peaks(
            probe_hardware(worker=executor.worker, notify=console.print), store.rows(), console.print
        )
        found = run(options, executor, store, hardware, console)
    singles = {
        graph: [one for one in rows if not one.variant.knob.startswith(COMBINED)] for graph, rows in found.items()
    }
    console.print(summary_table(singles))
    if options.json:
        asked = {name: str(value) for name, value in vars(options).items()}
        machine = dataclasses.asdict(hardware)
        write_report(
            options.json, options=asked, hardware=machine, graphs={g: stored(rows) for g, rows in found.items()}
        )


if __name__ == "__main__":
    main()
