"""Training from disk with a memory limit of a quarter of the features, compared with training in RAM without a limit.

    python -m benchmarks.out_of_core [--memory-limit 512MiB] [--ratio 4] [--cold] [--rounds 3] [--json FILE]

The limit is on the process's memory that can't be reclaimed, interpreter and libraries included (`MemoryGuard`). The
page cache is not counted, as the system can reclaim it at any time; so a machine with free memory serves "disk" from
RAM. Each row has a regime: warm (the features were read once before, and stay in
the page cache if there is room) or cold (the cache is emptied of the features before every mini-batch, outside the
time that is measured; the worst case). Every run is a process of its own; rounds interleave them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from mmap import MADV_DONTNEED
from pathlib import Path
from time import perf_counter

from a3gnn.config import TrainConfig
from a3gnn.errors import MemoryLimitError
from a3gnn.graphs.conversion.convert import convert
from a3gnn.graphs.graph import Graph
from a3gnn.storage.cache import cache_root
from a3gnn.storage.mapping import mapping_of
from a3gnn.task import Task
from a3gnn.units import format_size, parse_size
from benchmarks.report import write_report

WIDTH = 128
DEGREE = 16
WARM_UP = 5
RUNS = ("ram", "disk warm", "disk cold")


@dataclass(frozen=True, slots=True)
class Run:
    """What one process measured: mini-batches per second, unreclaimable memory, and what it read from the device."""

    batches_per_s: float
    peak_bytes: int
    idle_bytes: int
    read_bytes_per_batch: float
    hit_rate: float


@dataclass(frozen=True, slots=True)
class Row:
    """One regime over all rounds: medians, the slowest and the fastest round, and the highest peak."""

    run: str
    batches_per_s: float
    lowest: float
    highest: float
    ratio_to_ram: float
    peak_bytes: int
    limit_bytes: int | None
    limit_kept: bool
    read_bytes_per_batch: float
    hit_rate: float
    rounds: list[Run]


def graph_folder(limit: int, ratio: float) -> Path:
    """Returns the folder of the graph with `ratio * limit` bytes of features, converted the first time."""
    nodes = round(ratio * limit / (4 * WIDTH))
    spec = f"synthetic:nodes={nodes},degree={DEGREE},features={WIDTH},classes=16"
    folder = cache_root() / "benchmarks" / spec.partition(":")[2]
    if not folder.is_dir():
        print(f"converting {spec}", file=sys.stderr)
        convert(spec, folder, say=lambda line: print(line, file=sys.stderr))
    return folder


def evict(graph: Graph) -> None:
    """Empties the page cache of the graph's features."""
    assert graph.folder is not None
    mapping = mapping_of(graph.features.arrays()["x"])
    assert mapping is not None
    mapping.madvise(MADV_DONTNEED)  # mapped pages would stay
    file = os.open(graph.folder / "x.npy", os.O_RDONLY)
    os.fsync(file)  # and dirty ones
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def read_bytes() -> int:
    """Returns the bytes that this process has read from devices so far."""
    return 512 * resource.getrusage(resource.RUSAGE_SELF).ru_inblock


def measure(run: str, folder: Path, limit: int, cache_bytes: int, batches: int) -> Run:
    """Returns the measurements of training `batches` mini-batches in this process, after a few for warm-up."""
    from a3gnn.training.memory import host_bytes
    from a3gnn.training.trainer import Trainer

    graph, in_ram = Graph.load(folder), run == "ram"
    idle = host_bytes()
    config = TrainConfig(feature_tier="ram") if in_ram else TrainConfig(feature_tier="disk", cache_bytes=cache_bytes)
    task = Task(hidden_channels=64, fanouts=(10, 5))
    seconds, hits, rows, read = 0.0, 0, 0, 0
    with Trainer(graph, config, task, host_memory_limit=None if in_ram else limit) as trainer:
        steps = (step for epoch in range(batches) for step in trainer.steps(epoch))
        for done in range(WARM_UP + batches):
            if run == "disk cold":
                evict(graph)
            before, begin = read_bytes(), perf_counter()
            step = next(steps)
            if done < WARM_UP:
                continue
            seconds += perf_counter() - begin
            read += read_bytes() - before
            hits, rows = hits + step.hits, rows + step.input_nodes
        steps.close()
        peak = trainer.memory.peak_bytes
    return Run(batches / seconds, peak, idle, read / batches, hits / rows)


def measured(run: str) -> Run:
    """Returns `measure` of a fresh process; ends with its error, such as an exceeded limit."""
    done = subprocess.run([sys.executable, __file__, "--run", run, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    return Run(**json.loads(done.stdout))


def warm(folder: Path) -> None:
    """Reads the features once, so that they are in the page cache where there is room."""
    with (folder / "x.npy").open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def row_of(name: str, runs: list[Run], reference: float, limit: int | None) -> Row:
    """Returns a regime's row: medians over its rounds; `reference` is RAM's speed."""
    speeds = sorted(run.batches_per_s for run in runs)
    peak = max(run.peak_bytes for run in runs)
    return Row(
        run=name,
        batches_per_s=statistics.median(speeds),
        lowest=speeds[0],
        highest=speeds[-1],
        ratio_to_ram=statistics.median(speeds) / reference,
        peak_bytes=peak,
        limit_bytes=limit,
        limit_kept=limit is None or peak <= limit,
        read_bytes_per_batch=statistics.median(run.read_bytes_per_batch for run in runs),
        hit_rate=runs[0].hit_rate,
        rounds=runs,
    )


def table(rows: list[Row]) -> str:
    """Returns the rows as a Markdown table."""
    lines = ["| run | mini-batches/s | of RAM's | peak memory | limit | read per batch | hits |", "|---|" + "---:|" * 6]
    for row in rows:
        kept = "none" if row.limit_bytes is None else "kept" if row.limit_kept else "PASSED"
        lines.append(
            f"| {row.run} | {row.batches_per_s:.1f} ({row.lowest:.1f} to {row.highest:.1f}) | {row.ratio_to_ram:.2f} | "
            f"{format_size(row.peak_bytes)} | {kept} | {format_size(row.read_bytes_per_batch)} | {row.hit_rate:.0%} |"
        )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--memory-limit", type=parse_size, default=parse_size("512MiB"), help="default 512MiB")
    made.add_argument("--ratio", type=float, default=4.0, help="features over limit; default 4")
    made.add_argument("--cache", type=parse_size, default=None, help="feature cache in RAM; default a quarter of it")
    made.add_argument("--batches", type=int, default=60)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--cold", action="store_true", help="also measure with an empty page cache (Linux)")
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    made.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    return made


def main() -> None:
    """Prints the table, or with --run what one process measured."""
    options = parser().parse_args()
    limit = options.memory_limit
    folder = graph_folder(limit, options.ratio)
    if options.run:
        cache_bytes = options.cache or limit // 4
        try:
            print(json.dumps(asdict(measure(options.run, folder, limit, cache_bytes, options.batches))))
        except MemoryLimitError as error:
            raise SystemExit(f"{options.run}: {error}") from None
        return
    warm(folder)
    names = RUNS if options.cold else RUNS[:-1]
    found: dict[str, list[Run]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            found[name].append(measured(name))
            if name == "disk cold":
                warm(folder)
    graph, reference = Graph.load(folder), statistics.median(run.batches_per_s for run in found["ram"])
    rows = [row_of(name, runs, reference, None if name == "ram" else limit) for name, runs in found.items()]
    print(f"{graph!r}: {format_size(graph.features.nbytes)} of features, limit {format_size(limit)}")
    print(table(rows))
    if options.json:
        write_report(options.json, graph=graph.name, rows=list(map(asdict, rows)))


if __name__ == "__main__":
    main()
