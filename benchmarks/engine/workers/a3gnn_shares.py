"""Which share of the machine's limits a3gnn's sampler and gather reach, measured side by side in one process."""

from __future__ import annotations

import statistics
from time import perf_counter
from typing import Any

import numpy as np
import torch

from a3gnn.config import TrainConfig
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.pipeline import Pipeline
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.threads import pool
from benchmarks.engine.accounting import Reads, issued_reads, least_seconds, unavoidable_lines
from benchmarks.engine.workers.limits import RowCopies, copy_bytes_per_s, medians, random_reads_per_s
from benchmarks.engine.workers.work import Unavailable

_WARM_UP = 2


def measure_limits(graph: Graph) -> dict[str, float]:
    """Returns the rate of random reads over arrays of the sizes that sampling `graph` reads, and of copying."""
    return {
        "slots_reads_per_s": random_reads_per_s(graph.num_edges),
        "pointers_reads_per_s": random_reads_per_s(2 * (graph.num_nodes + 1)),
        "relabel_reads_per_s": random_reads_per_s(graph.num_nodes),
        "copy_bytes_per_s": copy_bytes_per_s(),
    }


def sampler_share(graph: Graph, fanouts: tuple[int, ...], batch_size: int, count: int) -> dict[str, Any]:
    """Returns the sampler's share of the random-read limits, one thread, over `count` mini-batches.

    Each read is charged at the limit of an array as large as the one that it reads. `share` counts the reads that are
    asked for; `unavoidable_share` only distinct cache lines, as if picks that share one were free.
    """
    sampler = NeighbourSampler(graph.indptr, graph.indices, fanouts, seed=1)
    order = np.random.default_rng(1).permutation(graph.train_ids)
    first = measure_limits(graph)
    timed: list[tuple[Reads, Reads, float]] = []
    with pool.limited(1):
        for batch in range(count + _WARM_UP):
            seeds = np.roll(order, -batch * batch_size)[:batch_size].astype(np.int32)
            begin = perf_counter()
            subgraph = sampler.sample(seeds, 0, batch)
            seconds = perf_counter() - begin
            if batch >= _WARM_UP:
                timed.append((*_reads(graph, subgraph), seconds))
    limits = {name: max(rate, first[name]) for name, rate in measure_limits(graph).items()}
    rates = Reads(limits["pointers_reads_per_s"], limits["slots_reads_per_s"], limits["relabel_reads_per_s"])
    shares = [least_seconds(issued, rates) / seconds for issued, _, seconds in timed]
    lines = [least_seconds(unavoidable, rates) / seconds for _, unavoidable, seconds in timed]
    columns = zip(Reads._fields, zip(*(issued for issued, _, _ in timed), strict=True), strict=True)
    return {
        "share": statistics.median(shares),
        "shares": shares,
        "unavoidable_share": statistics.median(lines),
        "reads_per_batch": {name: statistics.median(column) for name, column in columns},
        "limits": limits,
    }


def gather_share(graph: Graph, fanouts: tuple[int, ...], batch_size: int, count: int) -> dict[str, Any]:
    """Returns how long a bare copy of the same rows takes beside the feature store's read, over `count` mini-batches.

    The two alternate, write into warm buffers and may use two threads.

    Raises:
        Unavailable: The features are sparse.
    """
    if not isinstance(graph.features, DenseFeatures):
        raise Unavailable("features are sparse")
    copies = RowCopies(graph.features.array)
    ours: list[float] = []
    theirs: list[dict[str, float]] = []
    row_bytes = graph.features.row_bytes
    moved = 0.0
    with Pipeline(graph, TrainConfig(batch_size=batch_size), fanouts, seed=1) as pipeline:
        ids = [batch.subgraph.n_id for batch, _ in zip(pipeline.epoch(0), range(count + _WARM_UP), strict=False)]
        rows = max(map(len, ids))
        warm = torch.zeros((rows, graph.num_features))
        target = np.ones((rows, graph.num_features), dtype=graph.features.array.dtype)
        for n_id in ids:
            begin = perf_counter()
            pipeline.store.read(n_id, warm[: len(n_id)])
            ours.append(perf_counter() - begin)
            theirs.append(copies.seconds(n_id.astype(np.int64), target[: len(n_id)]))
            moved = len(n_id) * row_bytes
    copies.close()
    by_means = medians(theirs[_WARM_UP:])
    best = min(by_means, key=by_means.__getitem__)
    shares = [copied[best] / read for copied, read in zip(theirs[_WARM_UP:], ours[_WARM_UP:], strict=True)]
    return {
        "share": statistics.median(shares),
        "shares": shares,
        "means": best,
        "copy_ms": {name: seconds * 1e3 for name, seconds in by_means.items()},
        "read_ms": statistics.median(ours[_WARM_UP:]) * 1e3,
        "bytes_per_s": moved / by_means[best],
    }


def _reads(graph: Graph, subgraph: Subgraph) -> tuple[Reads, Reads]:
    """Returns the reads that are asked for, and the lines that can't be avoided."""
    rows = subgraph.n_id[: len(subgraph.indptr) - 1].astype(np.int64)
    degrees = graph.indptr[rows + 1] - graph.indptr[rows]
    picks = np.diff(subgraph.indptr).astype(np.int64)
    return issued_reads(picks, subgraph.num_nodes), unavoidable_lines(degrees, picks, subgraph.num_nodes)
