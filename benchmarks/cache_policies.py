"""Hit ratio and overhead of every cache policy by cache size and seed order: BGL's figure 5.

    python -m benchmarks.cache_policies [--graph fb100_multi_a ...] [--rounds 3] [--json FILE]

Mini-batches are sampled uniformly by a3gnn's sampler in the order of `seed_order`; those of the first epoch, or the
first half if that is fewer, fill the caches and are not counted. Rows are dense, float32, in RAM, whatever the graph's
features, as hits depend on ids only. A cell is the hit ratio, then milliseconds of overhead per mini-batch: look-up and
update with copies of admitted rows, and without them in brackets. Hit ratios are equal in every round; milliseconds are
the median over rounds, each of which runs all policies. Static rankings are made from other mini-batches than those
that they are evaluated on.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from a3gnn.config import DYNAMIC_POLICIES, SEED_ORDERS, STATIC_POLICIES
from a3gnn.features.caches.dynamic import DynamicCache
from a3gnn.features.caches.presample import most_needed_first
from a3gnn.features.caches.ranking import expected_access
from a3gnn.features.caches.replay import replay
from a3gnn.features.caches.slot_map import SlotMap
from a3gnn.features.caches.static import StaticCache
from a3gnn.features.opening import warm_up
from a3gnn.features.rows.stored import DenseRows
from a3gnn.features.rows.table import RowTable
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.hotness import hottest_first
from a3gnn.runtime.plan import PlannedBatch, epoch_plan
from a3gnn.sampling.sampler import NeighbourSampler
from benchmarks.engine.graphs import spec_of
from benchmarks.report import write_report
from benchmarks.seed_order import proximity

GRAPHS = ("fb100_multi_a", "wordnet_en", "synthetic:nodes=500000,degree=20,classes=20")
SHARES = (0.01, 0.05, 0.1, 0.2, 0.4)
POLICIES = (*STATIC_POLICIES, *DYNAMIC_POLICIES)

Batches = list[NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy, cache size and seed order.

    Attributes:
        order: random or proximity.
        policy: The policy.
        share: Share of the graph's rows that the cache holds.
        hit_rate: Hits per row read, in [0, 1].
        overhead_ms: Milliseconds per mini-batch, each round's mean: look-up, update and copies of admitted rows.
        maps_ms: The same without copies: each round's median.
    """

    order: str
    policy: str
    share: float
    hit_rate: float
    overhead_ms: list[float]
    maps_ms: list[float]


@dataclass(frozen=True, slots=True)
class Work:
    """A graph with its mini-batches by seed order, and its nodes as static policies rank them."""

    graph: Graph
    batches: dict[str, Batches]
    warm_up: dict[str, int]
    ranked: dict[str, NDArray[np.int32]]
    rows: DenseRows


def prepared(spec: str, options: argparse.Namespace) -> Work:
    """Returns the work on the graph of `spec`, a name in the folder of real graphs or what `Graph.load` takes."""
    graph = Graph.load(spec_of(spec))
    batches, warm = {}, {}
    for order in options.orders:
        batches[order], plan = sampled(graph, order, options)
        warm[order] = min(len(plan), len(batches[order]) // 2)
    how = (graph, options.fanouts, options.batch_size)
    ranked = {
        "degree": hottest_first(graph),
        "access": np.argsort(-expected_access(*how), kind="stable").astype(np.int32),
        "presample": most_needed_first(*how, options.seed),
    }
    rows = DenseRows(np.ones((graph.num_nodes, options.width), dtype=np.float32))
    return Work(graph, batches, warm, ranked, rows)


def sampled(graph: Graph, order: str, options: argparse.Namespace) -> tuple[Batches, list[PlannedBatch]]:
    """Returns the nodes that the first mini-batches of training need, and the plan of the first epoch."""
    near = proximity(graph, options.batch_size, options.seed) if order == "proximity" else None
    sampler = NeighbourSampler(graph.indptr, graph.indices, options.fanouts, seed=options.seed)
    batches: Batches = []
    plans = [epoch_plan(graph.train_ids, options.batch_size, options.seed, 0, order=near)]
    while True:
        epoch, left = len(plans) - 1, options.batches - len(batches)
        batches += [sampler.sample(one.seeds, epoch, one.index).n_id for one in plans[-1][:left]]
        if len(batches) == options.batches:
            return batches, plans[0]
        plans.append(epoch_plan(graph.train_ids, options.batch_size, options.seed, epoch + 1, order=near))


def measured(work: Work, order: str, policy: str, share: float) -> tuple[float, float, float]:
    """Returns the hit ratio, and the milliseconds of overhead with copies and without."""
    nodes, batches, warm = work.graph.num_nodes, work.batches[order], work.warm_up[order]
    slots, hot = round(share * nodes), work.ranked.get(policy)
    maps = replay(policy, batches, slots, nodes, hot, warm_up_batches=warm)
    cache: StaticCache | DynamicCache
    if hot is None:
        cache = DynamicCache(SlotMap(policy, slots, nodes), work.rows)
    else:
        cache = StaticCache(work.rows, np.sort(hot[:slots]), nodes)
    whole, before = RowTable.of(work.rows.array), cache.stats
    for index, ids in enumerate(batches):
        before = cache.stats if index == warm else before
        with cache.serving(ids, RowTable(whole.addresses[ids], whole.row_like, whole.owners)):
            pass
    after = cache.stats
    hits, misses = after.hits - before.hits, after.misses - before.misses
    assert abs(hits / (hits + misses) - maps.hit_rate) < 1e-9, "a cache with rows hits as its maps alone do"
    return maps.hit_rate, 1e3 * (after.overhead_s - before.overhead_s) / (len(batches) - warm), maps.overhead_ms


def cells(work: Work, options: argparse.Namespace) -> list[Cell]:
    """Returns every order, policy and share, after `options.rounds` rounds through all of them."""
    keys = list(product(options.orders, POLICIES, options.shares))
    found: dict[tuple[str, str, float], list[tuple[float, float, float]]] = {key: [] for key in keys}
    for _ in range(options.rounds):
        for order, policy, share in keys:
            found[order, policy, share].append(measured(work, order, policy, share))
    return [
        Cell(*key, rounds[0][0], [full for _, full, _ in rounds], [maps for _, _, maps in rounds])
        for key, rounds in found.items()
    ]


def table(title: str, order: str, shares: list[float], rows: list[Cell]) -> Table:
    """Returns the cells of one seed order, a line per policy."""
    drawn = Table(title=title, title_justify="left")
    drawn.add_column(order)
    for share in shares:
        drawn.add_column(f"{share:.0%} of rows", justify="right")
    for policy in POLICIES:
        line = [cell for cell in rows if (cell.order, cell.policy) == (order, policy)]
        drawn.add_row(policy, *map(text, line))
    return drawn


def text(cell: Cell) -> str:
    """Returns a cell's text, with half the spread of rounds if it is visible."""
    overhead, maps = statistics.median(cell.overhead_ms), statistics.median(cell.maps_ms)
    spread = (max(cell.overhead_ms) - min(cell.overhead_ms)) / 2
    return f"{cell.hit_rate:.1%} {overhead:.2f}±{spread:.2f} ({maps:.2f})"


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--graph", nargs="+", default=list(GRAPHS), help="names of real graphs, or specs")
    made.add_argument("--orders", nargs="+", default=list(SEED_ORDERS), choices=SEED_ORDERS)
    made.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    made.add_argument("--fanouts", nargs="+", type=int, default=[25, 10])
    made.add_argument("--batch-size", type=int, default=1024)
    made.add_argument(
        "--batches", type=int, default=60, help="mini-batches sampled, including an epoch that fills the caches"
    )
    made.add_argument("--width", type=int, default=128, help="columns of the rows")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--json", type=Path, help="write the result to this file, such as in benchmarks/results")
    return made


def main() -> None:
    """Prints a table per graph and seed order."""
    options, console = parser().parse_args(), Console(width=150, highlight=False)
    warm_up()
    report = {}
    for spec in options.graph:
        work = prepared(spec, options)
        rows = cells(work, options)
        for order in options.orders:
            needed = statistics.fmean(map(len, work.batches[order]))
            counted = len(work.batches[order]) - work.warm_up[order]
            title = f"{spec}, {order}: {needed:,.0f} rows per mini-batch, {counted} mini-batches counted"
            console.print(table(title, order, options.shares, rows))
        report[spec] = [asdict(cell) for cell in rows]
    if options.json:
        write_report(options.json, graphs=report)


if __name__ == "__main__":
    main()
