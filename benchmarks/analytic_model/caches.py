"""Caches and seed orders: expected hit rates and nodes of mini-batches, and those of a replay."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, product

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import SEED_ORDERS, CachePolicy, TrainConfig
from a3gnn.features.caches.replay import replay
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.hotness import hottest_first
from a3gnn.runtime.plan import epoch_plan
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.task import Task
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.volume import batch_volume
from benchmarks.engine.graphs import spec_of
from benchmarks.seed_order import proximity

POLICIES: tuple[CachePolicy, ...] = ("degree", "fifo", "lru", "lfu")
SHARES = (0.05, 0.1, 0.2, 0.4)
FANOUTS = ((10, 5), (25, 10))
_SEEDS_REPLAYED = 120 * 1024


@dataclass(frozen=True, slots=True)
class Hits:
    """One cache, as expected and as measured.

    Attributes:
        graph: Its name or spec.
        batch_size: Seeds per mini-batch.
        fanouts: In-neighbours sampled per node, the seeds' hop first.
        order: random or proximity.
        policy: How the cache chooses its rows.
        share: Share of the nodes whose rows it holds.
        nodes: Distinct nodes per mini-batch, the mean.
        expected_nodes: The same, as expected.
        hit_rate: Hits per node, in [0, 1].
        expected_hit_rate: The same, as expected.
    """

    graph: str
    batch_size: int
    fanouts: tuple[int, ...]
    order: str
    policy: str
    share: float
    nodes: float
    expected_nodes: float
    hit_rate: float
    expected_hit_rate: float


def mini_batches(graph: Graph, batch_size: int, fanouts: Sequence[int], order: str) -> Iterator[NDArray[np.int32]]:
    """Yields the nodes of the mini-batches of two epochs, at most 60 * 1,024 seeds of each."""
    near = proximity(graph, batch_size, 0) if order == "proximity" else None
    sampler = NeighbourSampler(graph.indptr, graph.indices, fanouts, seed=0)
    for epoch in range(2):
        plan = epoch_plan(graph.train_ids, batch_size, 0, epoch, order=near)
        for batch in islice(plan, max(_SEEDS_REPLAYED // 2 // batch_size, 1)):
            yield sampler.sample(batch.seeds, epoch, batch.index).n_id


def comparisons(spec: str, batch_sizes: Sequence[int]) -> Iterator[Hits]:
    """Yields every cache on the graph of `spec`; batch sizes with fewer than two mini-batches are skipped."""
    graph = Graph.load(spec_of(spec))
    known, hot = graph.characteristics(), hottest_first(graph)
    for batch_size, fanouts, order in product(batch_sizes, FANOUTS, SEED_ORDERS):
        if 2 * batch_size > len(graph.train_ids):
            continue
        batches = list(mini_batches(graph, batch_size, fanouts, order))
        nodes = statistics.fmean(map(len, batches))
        for policy, share in product(POLICIES, SHARES):
            slots = int(share * graph.num_nodes)
            config = TrainConfig(
                batch_size=batch_size,
                cache_bytes=round(slots * known.row_bytes) + CACHE_INDEX_BYTES * graph.num_nodes,
                cache_policy=policy,
                seed_order=order,
            )
            expected = batch_volume(as_columns([config]), Task(fanouts=fanouts), known)
            ranked = hot if policy == "degree" else None
            measured = replay(policy, batches, slots, graph.num_nodes, ranked, warm_up_batches=len(batches) // 2)
            yield Hits(
                graph=spec,
                batch_size=batch_size,
                fanouts=fanouts,
                order=order,
                policy=policy,
                share=share,
                nodes=nodes,
                expected_nodes=float(expected.input_nodes[0]),
                hit_rate=measured.hit_rate,
                expected_hit_rate=float(expected.hit_rate[0]),
            )


def tables(rows: Sequence[Hits]) -> list[Table]:
    """Returns a row per graph, batch size, fanouts and order, measured / expected; and the errors."""
    return [_cells(rows), _errors(rows)]


def _cells(rows: Sequence[Hits]) -> Table:
    columns = [(policy, share) for policy in POLICIES for share in (0.1, 0.4)]
    shown = Table("graph", "batch", "fanouts", "order", "nodes", *(f"{name} {share:.0%}" for name, share in columns))
    for (graph, batch_size, fanouts, order), group in groupby(
        rows, lambda row: (row.graph, row.batch_size, row.fanouts, row.order)
    ):
        by_cache = {(row.policy, row.share): row for row in group}
        first = next(iter(by_cache.values()))
        rates = (f"{row.hit_rate:.2f}/{row.expected_hit_rate:.2f}" for row in map(by_cache.__getitem__, columns))
        nodes = f"{first.nodes / 1e3:.1f}k/{first.expected_nodes / 1e3:.1f}k"
        shown.add_row(graph.partition(",")[0], str(batch_size), str(fanouts), order, nodes, *rates)
    return shown


def _errors(rows: Sequence[Hits]) -> Table:
    shown = Table("order", "policy", "hit rate off by", "at most", "on", "nodes off by")
    for order, policy in product(SEED_ORDERS, POLICIES):
        own = [row for row in rows if (row.order, row.policy) == (order, policy)]
        worst = max(own, key=_error)
        nodes = statistics.fmean(abs(row.expected_nodes / row.nodes - 1) for row in own)
        mean = statistics.fmean(map(_error, own))
        where = worst.graph.partition(",")[0]
        shown.add_row(order, policy, f"{mean:.3f}", f"{_error(worst):.2f}", where, f"{nodes:.0%}")
    return shown


def _error(row: Hits) -> float:
    return abs(row.expected_hit_rate - row.hit_rate)
