"""Read times by cache policy: rows in RAM, on disk in the page cache, and on a cold disk.

    python -m benchmarks.cache_reads [--graph fb100_multi_a] [--order proximity] [--rounds 3] [--json FILE]

Stores read the nodes of the same mini-batches, sampled uniformly in the seed order; the first ones fill the caches.
After those, stores alternate mini-batch by mini-batch. Regimes: ram (feature_tier ram); warm (feature_tier disk, with
features in the system's page cache); cold (the same, and the page cache is emptied of features before every read and
before auto's trial, outside the time that is measured). A cell is the hit ratio, the median milliseconds of a read with
quartiles, and its ratio to a store without a cache. Each round starts with empty caches.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import CACHE_POLICIES, SEED_ORDERS, TrainConfig
from a3gnn.features.opening import open_features, warm_up
from a3gnn.features.stores.store import FeatureStore
from a3gnn.graphs.graph import Graph
from benchmarks.cache_policies import Batches, sampled
from benchmarks.engine.graphs import spec_of
from benchmarks.out_of_core import evict
from benchmarks.report import write_report

REGIMES = ("ram", "warm", "cold")
POLICIES = ("none", *CACHE_POLICIES)


@dataclass(frozen=True, slots=True)
class Cell:
    """A policy in a regime.

    Attributes:
        regime: ram, warm or cold.
        policy: none, or the policy that was asked for.
        took: The policy that was used in each round, which may differ for auto.
        hit_rate: Hits per row, in [0, 1], of the last round.
        read_ms: Milliseconds of each read, of all rounds.
    """

    regime: str
    policy: str
    took: list[str]
    hit_rate: float
    read_ms: list[float]


@dataclass(frozen=True, slots=True)
class Work:
    """A graph on the disk, the nodes of the mini-batches to read, and the first epoch's seeds per mini-batch."""

    graph: Graph
    batches: Batches
    seeds: Batches


def opened(work: Work, regime: str, policy: str, options: argparse.Namespace) -> FeatureStore:
    """Returns the store of `policy`, whose cache may take `options.share` of the features' bytes next to its map."""
    graph = work.graph
    room = CACHE_INDEX_BYTES * graph.num_nodes + round(options.share * graph.features.nbytes)
    config = TrainConfig(
        batch_size=options.batch_size,
        feature_tier="ram" if regime == "ram" else "disk",
        cache_bytes=0 if policy == "none" else room,
        cache_policy="degree" if policy == "none" else policy,
    )
    if regime == "cold":
        evict(graph)
    return open_features(graph, config, fanouts=options.fanouts, seed=options.seed, seeds=work.seeds)


def a_round(work: Work, regime: str, options: argparse.Namespace) -> Iterator[Cell]:
    """Yields each policy's cell of one round."""
    graph, batches = work.graph, work.batches
    stores = {policy: opened(work, regime, policy, options) for policy in options.policies}
    out = torch.empty((max(map(len, batches)), graph.num_features))
    for ids in batches[: options.fill]:
        for store in stores.values():
            store.read(ids, out[: len(ids)])
    before = {policy: store.stats for policy, store in stores.items()}
    times: dict[str, list[float]] = {policy: [] for policy in stores}
    for ids in batches[options.fill :]:
        for policy, store in stores.items():
            if regime == "cold":
                evict(graph)
            begin = perf_counter()
            store.read(ids, out[: len(ids)])
            times[policy].append(1e3 * (perf_counter() - begin))
    for policy, store in stores.items():
        hits, misses = store.stats.hits - before[policy].hits, store.stats.misses - before[policy].misses
        yield Cell(regime, policy, [store.stats.policy], hits / max(hits + misses, 1), times[policy])


def merged(cells: list[Cell]) -> Cell:
    """Returns the rounds of one policy in one regime as a cell."""
    last = cells[-1]
    took = [name for cell in cells for name in cell.took]
    return Cell(last.regime, last.policy, took, last.hit_rate, [time for cell in cells for time in cell.read_ms])


def table(title: str, cells: list[Cell]) -> Table:
    """Returns the cells as a table, a column per regime."""
    drawn = Table(title=title, title_justify="left")
    drawn.add_column("policy")
    regimes = list(dict.fromkeys(cell.regime for cell in cells))
    for regime in regimes:
        drawn.add_column(regime, justify="right")
    base = {cell.regime: statistics.median(cell.read_ms) for cell in cells if cell.policy == "none"}
    for policy in dict.fromkeys(cell.policy for cell in cells):
        drawn.add_row(policy, *(text(cell, base.get(cell.regime)) for cell in cells if cell.policy == policy))
    return drawn


def text(cell: Cell, base: float | None) -> str:
    """Returns a cell's text."""
    low, middle, high = statistics.quantiles(cell.read_ms, n=4)
    ratio = f", x{middle / base:.2f}" if base else ""
    took = f"{'/'.join(dict.fromkeys(cell.took))} " if cell.policy == "auto" else ""
    return f"{took}{cell.hit_rate:.0%} {middle:.2f} ({low:.2f} to {high:.2f}){ratio}"


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--graph", default="fb100_multi_a", help="name of a real graph with dense features, or a spec")
    made.add_argument("--order", default="proximity", choices=SEED_ORDERS)
    made.add_argument("--regimes", nargs="+", default=list(REGIMES), choices=REGIMES)
    made.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    made.add_argument("--share", type=float, default=0.1, help="of the features' bytes; default a tenth")
    made.add_argument("--fanouts", nargs="+", type=int, default=[10, 5])
    made.add_argument("--batch-size", type=int, default=128)
    made.add_argument(
        "--batches", type=int, default=260, help="mini-batches read, including those that fill the caches"
    )
    made.add_argument("--fill", type=int, default=200, help="first mini-batches, which only fill the caches")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints the table."""
    options = parser().parse_args()
    graph = Graph.load(spec_of(options.graph)).on_disk()
    batches, plan = sampled(graph, options.order, options)
    work = Work(graph, batches, [planned.seeds for planned in plan])
    warm_up()
    found: dict[tuple[str, str], list[Cell]] = {}
    for _ in range(options.rounds):
        for regime in options.regimes:
            for cell in a_round(work, regime, options):
                found.setdefault((regime, cell.policy), []).append(cell)
    cells = [merged(rounds) for rounds in found.values()]
    needed = statistics.fmean(map(len, batches))
    title = f"{options.graph}, {options.order}: {needed:,.0f} rows per mini-batch, {options.share:.0%} cached"
    Console(width=150, highlight=False).print(table(title, cells))
    if options.json:
        write_report(options.json, graph=options.graph, cells=[asdict(cell) for cell in cells])


if __name__ == "__main__":
    main()
