"""METIS, random parts, BGL's blocks, DistDGL's and PaGraph's: what they cost once, and what the parts are worth.

    python -m benchmarks.partitioners [--graphs fb100_multi_a synthetic:...] [--parts 2 4 8] [--rounds 3] [--json FILE]
    python -m benchmarks.partitioners --graphs /fast/huge --parts 4 --rounds 1 --big

A graph is the name of a file in the folder of real graphs ($A3GNN_DATA), or anything that `Graph.load` takes. Each run
is a process of its own that opens the graph by memory map; rounds interleave them, each with another seed, and medians
are shown. Seconds are those of the partitioner alone, with its kernels compiled, by the clock and, less disturbed by
other work on the machine, of the processor. Memory is the highest anonymous memory while it runs, beyond what the
process had before, sampled every 20 ms from outside. "blocks by edges" is the variant of blocks that counts edges to
neighbour blocks instead of blocks within two hops; BGL has these figures in tables 3 and 4. --big gives every process a
limit of address space, maps of the graph included, and says where one that passes it has failed.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import statistics
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from a3gnn.algorithms.partitioning.distdgl import distdgl_partition
from a3gnn.algorithms.partitioning.pagraph import pagraph_partition
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partitioning.blocks import block_parts
from a3gnn.graphs.partitioning.metis import metis_parts
from a3gnn.graphs.partitioning.quality import PartitionQuality, partition_quality
from a3gnn.graphs.partitioning.random_parts import random_parts
from a3gnn.units import format_size, parse_size
from benchmarks.engine.client import ROOT
from benchmarks.engine.graphs import spec_of
from benchmarks.engine.memory import resident
from benchmarks.report import median_and_range, write_report

PARTITIONERS: dict[str, Callable[[Graph, int, int], NDArray[np.int32]]] = {
    "metis": metis_parts,
    "random": random_parts,
    "blocks": block_parts,
    "blocks by edges": partial(block_parts, affinity="edges"),
    "distdgl": distdgl_partition,
    "pagraph": pagraph_partition,
}
GRAPHS = ("fb100_multi_a", "synthetic:nodes=400000,degree=15,classes=64,homophily=0.9,mixing=0.1")
_WARM_UP = "synthetic:nodes=300,degree=8,classes=4,features=16"
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Run:
    """What one process measured; where it failed, `failed` says where, and the rest is None."""

    seconds: float | None = None
    processor_seconds: float | None = None
    peak_bytes: int | None = None
    quality: PartitionQuality | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One partitioner on one graph over all rounds: seconds, ascending, the highest peak, and the qualities."""

    graph: str
    num_parts: int
    partitioner: str
    seconds: list[float]
    processor_seconds: list[float]
    peak_bytes: int | None
    qualities: list[PartitionQuality]
    failed: str | None


def work(spec: str, name: str, num_parts: int, seed: int, limit: int | None) -> None:
    """Prints "ready", and when told to go on the seconds, and when told again the quality, each as a line of JSON."""
    graph = Graph.load(spec).on_disk()
    tiny = Graph.load(_WARM_UP)
    partition_quality(tiny, PARTITIONERS[name](tiny, 2, 0))
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print("ready", flush=True)
    sys.stdin.readline()
    begin, begin_processor = perf_counter(), process_time()
    try:
        parts = PARTITIONERS[name](graph, num_parts, seed)
    except MemoryError as error:
        cause = error.__cause__ or error
        where = [frame for frame in traceback.extract_tb(cause.__traceback__) if "partitioning" in frame.filename][-1]
        print(json.dumps({"failed": f"no memory at {where.line} ({cause})"}), flush=True)
        return
    times = {"seconds": perf_counter() - begin, "processor_seconds": process_time() - begin_processor}
    print(json.dumps(times), flush=True)
    sys.stdin.readline()
    print(json.dumps(asdict(partition_quality(graph, parts))), flush=True)


def measured(spec: str, name: str, num_parts: int, seed: int, limit: int | None, timeout_s: float) -> Run:
    """Returns what a fresh process measured under `limit` bytes of address space and a limit of seconds."""
    command = [sys.executable, "-m", "benchmarks.partitioners", "--work", spec, name, str(num_parts), str(seed)]
    command += [] if limit is None else ["--limit", str(limit)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            idle = peak = resident(process.pid).anonymous
            end = monotonic() + timeout_s
            _go(process.stdin)
            while not select.select([process.stdout], [], [], _LOOK_S)[0]:
                peak = max(peak, resident(process.pid).anonymous)
                if monotonic() > end:
                    return Run(peak_bytes=peak - idle, failed=f"not done after {timeout_s:.0f} s")
            line = process.stdout.readline()
            if not line:
                return Run(peak_bytes=peak - idle, failed=f"ended with status {process.wait()}")
            found = json.loads(line)
            if "failed" in found:
                return Run(peak_bytes=peak - idle, failed=found["failed"])
            _go(process.stdin)
            quality = PartitionQuality(**json.loads(process.stdout.readline()))
            return Run(**found, peak_bytes=peak - idle, quality=quality)
        finally:
            process.kill()


def _go(stdin: Any) -> None:
    stdin.write("\n")
    stdin.flush()


def row_of(graph: str, num_parts: int, name: str, runs: list[Run]) -> Row:
    """Returns the row of a partitioner's runs."""
    peaks = [run.peak_bytes for run in runs if run.peak_bytes is not None]
    return Row(
        graph=graph,
        num_parts=num_parts,
        partitioner=name,
        seconds=sorted(run.seconds for run in runs if run.seconds is not None),
        processor_seconds=sorted(run.processor_seconds for run in runs if run.processor_seconds is not None),
        peak_bytes=max(peaks, default=None),
        qualities=[run.quality for run in runs if run.quality is not None],
        failed=next((run.failed for run in runs if run.failed), None),
    )


def table(rows: list[Row]) -> Table:
    """Returns the rows as a table."""
    names = ("graph", "parts", "partitioner", "seconds", "processor", "memory", "cut", "2-hop local", "nodes", "train")
    shown = Table(*names)
    for row in rows:
        head = (row.graph.partition(",")[0], str(row.num_parts), row.partitioner)
        memory = "" if row.peak_bytes is None else format_size(row.peak_bytes)
        if row.failed:
            shown.add_row(*head, row.failed, "", memory)
            continue
        cut, local, nodes, trains = (
            statistics.median(column) for column in zip(*map(astuple, row.qualities), strict=True)
        )
        shown.add_row(
            *head,
            median_and_range(row.seconds),
            f"{statistics.median(row.processor_seconds):.2f}",
            memory,
            f"{cut:.1%} (to {max(quality.edge_cut for quality in row.qualities):.1%})",
            f"{local:.1%}",
            f"{nodes:.3f}",
            f"{trains:.3f}",
        )
    return shown


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--graphs", nargs="+", default=GRAPHS)
    made.add_argument("--parts", nargs="+", type=int, default=(2, 4, 8))
    made.add_argument("--partitioners", nargs="+", choices=list(PARTITIONERS), default=list(PARTITIONERS))
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument(
        "--big", action="store_true", help="limit the address space, as for a graph that METIS can't hold"
    )
    made.add_argument("--limit", type=parse_size, default=None, help="limit of address space; with --big 12GiB")
    made.add_argument("--timeout", type=float, default=480.0, help="seconds that a partitioner may take; default 480")
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    made.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    return made


def main() -> None:
    """Prints the table, or with --work measures in this process."""
    options = parser().parse_args()
    limit = options.limit or (parse_size("12GiB") if options.big else None)
    if options.work:
        spec, maker, num_parts, seed = options.work
        work(spec, maker, int(num_parts), int(seed), limit)
        return
    rows = []
    for name in options.graphs:
        spec = spec_of(name)
        folder = str(Graph.load(spec).on_disk().folder)
        cells = [(num_parts, maker) for num_parts in options.parts for maker in options.partitioners]
        found: dict[tuple[int, str], list[Run]] = {cell: [] for cell in cells}
        for seed in range(options.rounds):
            for num_parts, maker in cells:
                found[num_parts, maker].append(measured(folder, maker, num_parts, seed, limit, options.timeout))
        rows += [row_of(name, *cell, runs) for cell, runs in found.items()]
    Console(width=140, highlight=False).print(table(rows))
    if options.json:
        write_report(options.json, rows=list(map(asdict, rows)))


if __name__ == "__main__":
    main()
