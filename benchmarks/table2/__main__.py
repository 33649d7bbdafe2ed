"""Rebuilds A3GNN's Table II: PyG, our default, and what tunes for throughput (T*), memory (M*) and more choose.

    python -m benchmarks.table2 [--graphs NAME ...] [--budget 5min] [--folder runs/table2] [--json FILE]

Ours: a tune per priority, under the memory limit of `--memory-limit`; then its choice, and the default, trained by
`a3gnn train` until validation stops improving, with three seeds. PyG: the median step and the peak memory over 30
mini-batches of its NeighborLoader and GraphSAGE as its examples write them, in the environment that `make peers`
builds; its accuracy on one graph alone, after as many epochs as the default takes to its best, with five seeds. Memory
is watched from outside for both: anonymous, and all of it with files (PSS), each less the same process when idle. The
rounds of all sides alternate.

What was measured is kept in FOLDER: the same command goes on where it was interrupted, and cells that are there are not
measured again. Real graphs are read from $A3GNN_DATA, or else ../shared/data next to the repository; `products` is the
synthetic graph of ogbn-products' size that `benchmarks.engine` uses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from a3gnn.graphs.graph import Graph
from a3gnn.storage.cache import cache_root
from benchmarks.engine.graphs import GRAPHS, spec_of
from benchmarks.engine.workers.work import Unavailable
from benchmarks.report import ResultLines, write_report
from benchmarks.table2.bench import PRIORITIES, Table2
from benchmarks.table2.pyg import add_peers_dir, pyg_python
from benchmarks.table2.report import Row, goal_lines, goals, graph_table, stored

_NO_PYG = "not installed: make peers builds its environment"


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ["fb100_multi_a", "amazon_computers", "wordnet_en", "products"]
    made.add_argument("--graphs", nargs="+", default=default, help="names, or what --dataset takes")
    made.add_argument("--priorities", nargs="+", default=list(PRIORITIES), choices=PRIORITIES)
    made.add_argument("--budget", default="5min", help="of each tune: a duration, or a number of trials")
    made.add_argument("--memory-limit", default="default", help="of each tune: default, a size, or none")
    made.add_argument("--max-accuracy-drop", type=float, default=0.5, help="of each tune, in points")
    made.add_argument("--seeds", type=int, default=3, help="of our trainings, and rounds of PyG's step")
    made.add_argument("--epochs", type=int, help="of our trainings, at most; by default until nothing improves")
    made.add_argument("--accuracy-graphs", nargs="*", default=["amazon_computers"], help="where PyG's is measured")
    made.add_argument("--folder", type=Path, default=Path("runs/table2"), help="where what is measured is kept")
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    add_peers_dir(made)
    return made


def converted(name: str) -> Path:
    """Returns the folder of the graph `name`.

    Raises:
        Unavailable: It is not there; the message says why.
    """
    if name in GRAPHS:
        return GRAPHS[name].folder(cache_root())
    folder = Graph.load(spec_of(name)).on_disk().folder
    assert folder is not None, "it is on disk"
    return folder


def run(options: argparse.Namespace, console: Console) -> list[Row]:
    """Returns the rows of all graphs, printed as they come; a graph that is not there is said and left out."""
    lines = ResultLines(options.folder / "cells.jsonl")
    python = pyg_python(options.peers_dir) or _NO_PYG
    rows: list[Row] = []
    for name in options.graphs:
        try:
            folder = converted(name)
        except Unavailable as reason:
            console.print(f"{name}: {reason}", markup=False)
            continue
        found = Table2(name, folder, options, lines, python, lambda line: console.print(line, markup=False)).rows()
        console.print(graph_table(found))
        rows += found
    return rows


def main() -> None:
    """Prints a table per graph, and what became of the goals."""
    options, console = parser().parse_args(), Console(width=240, highlight=False)
    rows = run(options, console)
    for line in goal_lines(goals(rows)):
        console.print(line, markup=False)
    if options.json:
        write_report(options.json, options={k: str(v) for k, v in vars(options).items()}, rows=stored(rows))


if __name__ == "__main__":
    main()
