"""`dry_run`: which rows the ranks of a synchronous algorithm would find in their memory, counted and not trained."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from a3gnn.algorithms.algorithm import Algorithm
from a3gnn.algorithms.iterations import Iterations
from a3gnn.algorithms.stored import Stored
from a3gnn.graphs.graph import Graph
from a3gnn.platforms.performance import VALUE_BYTES
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.runtime.two_stage_schedule import Schedule
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.task import Task
from a3gnn.training.hybrid.counts import Counts, counts_of


@dataclass(frozen=True, slots=True)
class RankBatch:
    """A mini-batch that a rank would train.

    Attributes:
        counts: Nodes and edges, hop by hop.
        hits: Input nodes whose features are in the rank's memory, or whose columns are that the rank has of all.
    """

    counts: Counts
    hits: int


@dataclass(frozen=True, slots=True, eq=False)
class DryRun:
    """The first epoch of an algorithm, some iterations of it counted.

    Attributes:
        algorithm: Which.
        schedule: Of the epoch.
        iterations: Mini-batches of each iteration that was counted, by rank; None of a rank that is idle.
        widths: Columns of the features that each rank keeps.
        stored_bytes: Features that the fullest rank keeps, dense and in float32.
        partition_s: Seconds of partitioning.
    """

    algorithm: Algorithm
    schedule: Schedule
    iterations: list[list[RankBatch | None]]
    widths: tuple[int, ...]
    stored_bytes: int
    partition_s: float

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.widths)

    @property
    def batches(self) -> list[RankBatch]:
        """All mini-batches that were counted."""
        return [batch for row in self.iterations for batch in row if batch is not None]

    @property
    def beta(self) -> float:
        """Share of the input rows that the ranks' own memory has (HitGNN, Eq. 7), in [0, 1]."""
        return sum(one.hits for one in self.batches) / sum(one.counts.input_nodes for one in self.batches)


def dry_run(
    algorithm: Algorithm, graph: Graph, task: Task, batch_size: int, ranks: int, *, most: int | None = None
) -> DryRun:
    """Partitions `graph` and samples mini-batches of the first epoch, those that `a3gnn train --algorithm` would train.

    Args:
        algorithm: Partitions, and says what each rank stores.
        graph: The graph.
        task: Its fanouts and seed are used.
        batch_size: Seeds of each rank's mini-batch.
        ranks: How many.
        most: Iterations that are counted at most, evenly spread over the epoch; None for all.

    Raises:
        UsageError: The algorithm doesn't fit the graph.
        MemoryLimitError: There is too little memory to partition.
    """
    begin = perf_counter()
    parts = algorithm.parts(graph, ranks, task.seed)
    partition_s = perf_counter() - begin
    stored = [algorithm.stored(graph, parts, rank, ranks) for rank in range(ranks)]
    iterations = Iterations(graph.train_ids, parts, ranks, batch_size, task.seed, balanced=algorithm.balanced)
    planned, count = iterations.of(0), len(iterations)
    chosen = np.unique(np.linspace(0, count - 1, count if most is None else min(most, count)).round().astype(np.int64))
    sampler = NeighbourSampler(graph.indptr, graph.indices, task.fanouts, seed=task.seed)
    kept = [_mask(graph, one) for one in stored]
    found = [
        [_counted(sampler, batch, mask) for batch, mask in zip(planned[place], kept, strict=True)] for place in chosen
    ]
    stored_bytes = max(VALUE_BYTES * len(one.nodes) * one.width for one in stored)
    widths = tuple(one.width for one in stored)
    return DryRun(algorithm, iterations.schedule, found, widths, stored_bytes, partition_s)


def _mask(graph: Graph, stored: Stored) -> NDArray[np.bool_]:
    mask = np.zeros(graph.num_nodes, dtype=np.bool_)
    mask[stored.nodes] = True
    return mask


def _counted(sampler: NeighbourSampler, batch: PlannedBatch, kept: NDArray[np.bool_]) -> RankBatch | None:
    if not len(batch.seeds):
        return None
    subgraph = sampler.sample(batch.seeds, epoch=0, batch=batch.index)
    return RankBatch(counts_of(subgraph), int(np.count_nonzero(kept[subgraph.n_id])))
