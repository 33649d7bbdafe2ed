"""Sampling times where every part of a graph has a server of its own (BGL, section 3.3 and table 3).

    python -m benchmarks.graph_servers [--graphs fb100_multi_a ...] [--parts 2 4] [--rounds 3] [--json FILE]

A server is a process that holds the rows of its part's nodes and no others, samples the mini-batches of its part's
train nodes, and asks the other servers for in-neighbours of theirs, over local sockets. BGL's servers are machines of
their own: here requests cost copies and wake-ups but no network, and servers share one machine's cores, so that
locality and even parts save less than they would there. Each round has its own seed and interleaves the partitioners.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import asdict, astuple
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from a3gnn.graphs.graph import Graph
from a3gnn.units import format_size
from benchmarks.engine.graphs import spec_of
from benchmarks.graph_servers.epoch import Epoch, Work, sample_epoch
from benchmarks.partitioners import PARTITIONERS
from benchmarks.report import median_and_range, write_report

GRAPHS = ("fb100_multi_a", "wordnet_en", "synthetic:nodes=400000,degree=15,classes=64,homophily=0.9,mixing=0.1")
Found = dict[tuple[int, str], list[Epoch]]


def epochs_of(graph: Graph, options: argparse.Namespace) -> tuple[Found, float]:
    """Returns the epochs by parts and partitioner, and the seconds of one process that holds all rows."""
    found: Found = {(num_parts, name): [] for num_parts in options.parts for name in options.partitioners}
    folder = graph.on_disk().folder
    assert folder is not None
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "parts.npy"

        def run(parts: np.ndarray, num_parts: int, seed: int) -> Epoch:
            np.save(file, parts)
            return sample_epoch(Work(folder, file, num_parts, options.batch_size, options.fanouts, seed))

        run(np.zeros(graph.num_nodes, dtype=np.int32), 1, 0)  # compiles
        alone = []
        for seed in range(options.rounds):
            alone.append(run(np.zeros(graph.num_nodes, dtype=np.int32), 1, seed).seconds)
            for num_parts, name in found:
                found[num_parts, name].append(run(PARTITIONERS[name](graph, num_parts, seed), num_parts, seed))
    return found, statistics.median(alone)


def table(title: str, found: Found) -> Table:
    """Returns the epochs as a table: medians, with ranges of the seconds and of their ratios to random parts'."""
    columns = ("servers", "partitioner", "seconds per epoch", "random's", "remote", "sent", "waited", "mini-batches")
    shown = Table(*columns, title=title)
    for (num_parts, name), epochs in found.items():
        seconds, waited, remote, sent, mini_batches = (
            list(column) for column in zip(*map(astuple, epochs), strict=True)
        )
        others = [other.seconds for other in found.get((num_parts, "random"), [])]
        ratios = [one / other for one, other in zip(seconds, others, strict=False)]
        shown.add_row(
            str(num_parts),
            name,
            median_and_range(seconds),
            median_and_range(ratios) if ratios else "",
            f"{statistics.median(remote):.1%}",
            format_size(round(statistics.median(sent))),
            f"{statistics.median(waited):.0%}",
            f"{mini_batches[0]}",
        )
    return shown


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--graphs", nargs="+", default=GRAPHS)
    made.add_argument("--parts", nargs="+", type=int, default=(2, 4))
    made.add_argument("--partitioners", nargs="+", choices=list(PARTITIONERS), default=["random", "metis", "blocks"])
    made.add_argument("--batch-size", type=int, default=1000)
    made.add_argument("--fanouts", nargs="+", type=int, default=[15, 10, 5])
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints a table per graph."""
    options, rows, console = parser().parse_args(), [], Console(width=140, highlight=False)
    for name in options.graphs:
        graph = Graph.load(spec_of(name))
        found, alone = epochs_of(graph, options)
        console.print(table(f"{graph!r}; one server alone: {alone:.2f} s", found))
        rows += [
            {"graph": name, "parts": num_parts, "partitioner": maker, "epochs": list(map(asdict, epochs))}
            for (num_parts, maker), epochs in found.items()
        ]
    if options.json:
        write_report(options.json, rows=rows)


if __name__ == "__main__":
    main()
