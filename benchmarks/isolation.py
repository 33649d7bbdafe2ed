"""Stages with cores of their own compared with stages that compete for cores (BGL, section 5.3.3 and figure 15).

    python -m benchmarks.isolation [--graph SPEC] [--modes mode1,mode2] [--workers 1,2,4] [--rounds 5] [--json FILE]

Four variants train the same mini-batches, alternating, in one process:

* naive: every stage of every worker uses all cores at once, the paper's baseline.
* free: the default: `OverlapPolicy` measures whether stages overlap or alternate.
* isolated: the best allocation by the fitted models, even if isolation is predicted to lose.
* auto: `resources=auto`: isolated if the models predict a gain, free otherwise.

Prints milliseconds per mini-batch (the median of the rounds, the fastest and the slowest), the speed-up over free
(ratios within a round), the fitted models, and the solver's time by number of cores. With 2 cores there is only one
allocation: one core for training and one for all the rest.
"""

from __future__ import annotations

import argparse
import statistics
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import count, islice, product
from pathlib import Path
from time import perf_counter

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.allocation.allocate import isolate
from a3gnn.runtime.allocation.allocation import Allocation
from a3gnn.runtime.allocation.isolation import Isolation
from a3gnn.runtime.allocation.solver import solve
from a3gnn.runtime.allocation.stage_model import Stage, StageModel
from a3gnn.task import Task
from a3gnn.threads import pool
from a3gnn.training.trainer import Trainer
from benchmarks.report import median_and_range, write_report

SPEC = "synthetic:nodes=100000,degree=20,features=100,classes=47"
VARIANTS = ("naive", "free", "isolated", "auto")
# More mini-batches than `OverlapPolicy` needs to decide, and those that fill a pipeline: neither are counted.
SETTLE, FILL = 48, 6
SOLVED = (2, 4, 16, 64, 128)


@dataclass(frozen=True, slots=True)
class Row:
    """One variant in one mode: milliseconds per mini-batch of each round, and the allocation."""

    mode: str
    workers: int
    variant: str
    ms: list[float]
    gains: list[float]
    allocation: Allocation | None


class Contestant:
    """A trainer; each of its measurements begins an epoch, so that it holds no cores between them."""

    def __init__(self, graph: Graph, config: TrainConfig, stack: ExitStack) -> None:
        self._trainer = stack.enter_context(Trainer(graph, config, Task()))
        self._epochs = count()

    def give(self, allocation: Allocation) -> None:
        """Applies `allocation` to the stages."""
        pipeline = self._trainer._pipeline
        pipeline.isolation = Isolation(pipeline._stages, pipeline._config, allocation, row_bytes=0)

    @property
    def isolation(self) -> Isolation | None:
        """The stages' allocation."""
        return self._trainer._pipeline.isolation

    def train(self, batches: int) -> float:
        """Returns the milliseconds per mini-batch of `batches` mini-batches, or of an epoch's if that has fewer."""
        with closing(self._trainer.steps(next(self._epochs))) as steps:
            list(islice(steps, FILL))
            begin = perf_counter()
            done = len(list(islice(steps, batches)))
            return (perf_counter() - begin) / done * 1e3


def compete(graph: Graph, config: TrainConfig, rounds: int, batches: int) -> tuple[list[Row], Isolation]:
    """Returns a row per variant, and the profile of the stages."""
    with ExitStack() as stack:
        found = {variant: Contestant(graph, config, stack) for variant in VARIANTS[:-1]}
        found["auto"] = Contestant(graph, config.replace(resources="auto"), stack)
        auto = found["auto"].isolation
        assert auto is not None
        cores = pool.usable_cores()
        found["naive"].give(Allocation(config.num_workers, cores, cores, pooled=True))
        while auto.allocation is None:
            found["auto"].train(batches)
        models = auto.profile.models()
        found["isolated"].give(isolate(models, config.parallel_mode, config.num_workers, cores))
        for contestant in found.values():
            for _ in range(-(-SETTLE // batches)):
                contestant.train(batches)
        times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for number in range(rounds):
            for variant in (*VARIANTS[number % len(VARIANTS) :], *VARIANTS[: number % len(VARIANTS)]):
                times[variant].append(found[variant].train(batches))
        rows = [row_of(config, variant, times, found[variant].isolation) for variant in VARIANTS]
    return rows, auto


def row_of(config: TrainConfig, variant: str, times: dict[str, list[float]], isolation: Isolation | None) -> Row:
    """Returns the row of `variant`."""
    gains = [free / mine for free, mine in zip(times["free"], times[variant], strict=True)]
    allocation = None if isolation is None else isolation.allocation
    return Row(config.parallel_mode, config.num_workers, variant, times[variant], gains, allocation)


def solver_ms(cores: int) -> float:
    """Returns the median milliseconds of solving for four stages on `cores` cores."""
    threads = np.arange(1, cores + 1)
    stages = [10 / threads, 20 / threads + 0.05, 30 / threads, 4 / threads + 0.1][: min(4, cores)]
    times = []
    for _ in range(51):
        begin = perf_counter()
        solve(stages, cores)
        times.append(perf_counter() - begin)
    return statistics.median(times) * 1e3


def table(rows: list[Row]) -> str:
    """Returns the rows as a Markdown table."""
    lines = [
        "| mode | workers | variant | ms per mini-batch | of free's speed | sampling, gather, training |",
        "|---|---:|---|---:|---:|---|",
    ]
    for row in rows:
        had = row.allocation
        shares = "measured: overlapped or alternating"
        if had is not None and had.isolated:
            shares = f"{had.sampling}, {had.gather}, {had.training}" + (" (pooled)" if had.pooled else "")
        lines.append(
            f"| {row.mode} | {row.workers} | {row.variant} | {median_and_range(row.ms, 1)} "
            f"| {median_and_range(row.gains)} | {shares} |"
        )
    return "\n".join(lines)


def describe(models: dict[Stage, StageModel]) -> str:
    """Returns the fitted models, one per line."""
    return "\n".join(
        f"  {stage:<9} {model.shared * 1e3:8.3f} / threads + {model.fixed * 1e3:.3f} ms, "
        f"R2 {model.r2:.3f}, largest error {model.worst:.0%}"
        for stage, model in models.items()
    )


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--graph", default=SPEC, help="what Graph.load takes")
    made.add_argument("--modes", default="mode1,mode2")
    made.add_argument("--workers", default="1,2,4")
    made.add_argument("--batch-size", type=int, default=1024)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--batches", type=int, default=24, help="mini-batches of each variant per round")
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints the tables."""
    options = parser().parse_args()
    graph = Graph.load(options.graph)
    print(f"{graph!r}, {pool.usable_cores()} cores")
    rows: list[Row] = []
    for mode, workers in product(options.modes.split(","), map(int, options.workers.split(","))):
        config = TrainConfig(batch_size=options.batch_size, parallel_mode=mode, num_workers=workers)
        more, auto = compete(graph, config, options.rounds, options.batches)
        rows += more
        assert auto.allocation is not None
        print(f"\n{mode}, {workers} workers: {auto.allocation.why}\n{describe(auto.profile.models())}")
    print(f"\n{table(rows)}\n")
    solver = {cores: solver_ms(cores) for cores in SOLVED}
    print("solver: " + ", ".join(f"{ms:.2f} ms on {cores} cores" for cores, ms in solver.items()))
    if options.json:
        write_report(options.json, graph=graph.name, solver_ms=solver, rows=[asdict(row) for row in rows])


if __name__ == "__main__":
    main()
