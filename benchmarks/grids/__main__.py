"""Measures grids: of a graph 40 learning keys x 6 settings of the other knobs, and the best of them five times.

    python -m benchmarks.grids [GRAPH ...] [--seconds 8] [--folder runs/grids] [--dry-run]

The default comes first and says how long each curve is trained: until it stops rising, --seconds at most. All others
follow in a drawn order, then rounds of the default and the best 30 (by each priority in turn, of what keeps the
default's accuracy). Every trial is on disk as soon as it is measured, in FOLDER/rows.jsonl: the same command goes on
where it was interrupted. A grid that is complete is written to FOLDER/GRAPH.jsonl.gz, with its provenance in the first
line; these files are no part of the shipped profiles. Nothing else should run on the machine meanwhile.

--dry-run measures nothing, and prints what would be measured and what that is predicted to take.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from a3gnn.graphs.graph import Graph
from a3gnn.machine.probe import kept_hardware, probe_hardware, within_peaks
from a3gnn.measurement import Measurement
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.store.jsonl import shipped_measurements, write_measurements
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from benchmarks.corpus.measure import DEFAULT, SECONDS, SubjectTrials, on_cores
from benchmarks.corpus.subjects import Subject
from benchmarks.engine.graphs import spec_of
from benchmarks.grids.design import SUBJECTS
from benchmarks.grids.measure import Shape, cells, forecast, measure_grid, table
from benchmarks.report import ResultLines


def run(subject: Subject, shape: Shape, seconds: float, folder: Path, console: Console) -> None:
    """Measures the grid of `subject`, and writes its file."""
    lines = ResultLines(folder / "rows.jsonl")
    with on_cores(subject.cores), LocalExecutor(console.log) as executor:
        hardware = within_peaks(probe_hardware(worker=executor.worker, notify=console.log), [], console.log)
        opened = SubjectTrials.opened(subject, lines, console, hardware, executor, folder, seconds)
        with opened as trials:
            rows = measure_grid(trials, shape, subject.seed)
    console.log(f"{subject.spec}: {write_grid(folder, rows)}")


def write_grid(folder: Path, rows: Sequence[Measurement]) -> Path:
    """Writes the rows of a grid into `folder`, and returns the file."""
    name = re.sub(r"[^\w.-]+", "-", rows[0].setting.graph.name)
    path = folder / f"{name}.jsonl.gz"
    write_measurements(path, rows, provenance=True)
    return path


def show(subject: Subject, shape: Shape, seconds: float, console: Console) -> None:
    """Prints what would be measured of `subject`, and what that is predicted to take."""
    hardware = kept_hardware() or probe_hardware(notify=console.log)
    graph = Graph.load(spec_of(subject.spec))
    setting = Setting(subject.task(graph), graph.characteristics(), hardware)
    configs = [DEFAULT, *cells(SearchSpace.of(setting), shape, subject.seed)]
    print(subject.spec)
    print("\n".join(table(configs, forecast(setting, configs, shape, seconds, shipped_measurements()))))


def main() -> None:
    """Measures grids, or shows what would be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help="a real graph's name, or what --dataset takes")
    parser.add_argument("--keys", type=int, default=Shape().keys, help="learning keys")
    parser.add_argument("--settings", type=int, default=Shape().settings, help="configurations of each")
    parser.add_argument("--top", type=int, default=Shape().top, help="how many of the best are measured again")
    parser.add_argument("--replicates", type=int, default=Shape().replicates, help="how often, in all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that the default trains, at most")
    parser.add_argument("--folder", type=Path, default=Path("runs/grids"), help="where rows are kept")
    parser.add_argument("--dry-run", action="store_true", help="print what would be measured, and for how long")
    options = parser.parse_args()
    shape = Shape(options.keys, options.settings, options.top, options.replicates)
    console, known = Console(stderr=True), {one.spec: one for one in SUBJECTS}
    for subject in [known.get(spec, Subject(spec)) for spec in options.graphs or known]:
        if options.dry_run:
            show(subject, shape, options.seconds, console)
        else:
            run(subject, shape, options.seconds, options.folder, console)


if __name__ == "__main__":
    main()
