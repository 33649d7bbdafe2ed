"""`predict_algorithms`: HitGNN's model (section VI-B) along an epoch of each algorithm, mini-batch by mini-batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.algorithm import Algorithm
from a3gnn.hitgnn.algorithms.iterations import Iterations, RankSchedule
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.hitgnn.platforms.lines import table
from a3gnn.hitgnn.platforms.metadata import Platform
from a3gnn.hitgnn.platforms.performance import (
    INDIRECT,
    VALUE_BYTES,
    Conditions,
    Rates,
    iteration_seconds,
    layer_seconds,
    synchronization_seconds,
    work_seconds,
)
from a3gnn.hitgnn.platforms.workload import Workload
from a3gnn.nvtps import nvtps, nvtps_per_gb_per_s
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.counts import Counts, counts_of
from a3gnn.sampling.sampler import Sampler
from a3gnn.task import Task
from a3gnn.units import format_size


class AlgorithmEstimate(NamedTuple):
    """The prediction for an algorithm on a number of devices. Only partitioning is measured.

    Attributes:
        algorithm: Its name.
        devices: Number of devices.
        iterations: Iterations of an epoch.
        beta: Share of the input rows in the devices' own memory, counted in the graph's mini-batches.
        moved: Share of the mini-batches that another partition's device trains (two-stage scheduling).
        stored_bytes: Features on the fullest device, dense and in float32.
        partition_s: Seconds of partitioning, on this machine.
        epoch_s: Seconds of an epoch.
        nvtps: Vertices traversed per second.
        nvtps_per_gb_per_s: NVTPS over the bandwidth of all memory.
        moved_bytes: Bytes per epoch that devices read from host memory, or send each other through it: rows, and P3's
            partial sums and their gradients, without gradients of weights.
    """

    algorithm: str
    devices: int
    iterations: int
    beta: float
    moved: float
    stored_bytes: int
    partition_s: float
    epoch_s: float
    nvtps: float
    nvtps_per_gb_per_s: float
    moved_bytes: float


class Devices(NamedTuple):
    """Devices that train: their platform, the rates of each kind of die of their design, and other conditions."""

    platform: Platform
    parts: Sequence[Rates]
    given: Conditions


def predict_algorithms(
    algorithms: Iterable[Algorithm],
    counts: Sequence[int],
    graph: Graph,
    task: Task,
    batch_size: int,
    devices: Devices,
    most: int | None = 32,
    notify: Callable[[str], None] = lambda line: None,
) -> list[AlgorithmEstimate]:
    """Returns the prediction for each algorithm on each of `counts` devices, ordered by device count first.

    An iteration takes as long as its slowest device. A device's time depends on its mini-batch, as it was sampled, and
    on the share of the rows that the device stores.

    Args:
        algorithms: The algorithms.
        counts: Numbers of devices.
        graph: The graph.
        task: The model, its widths, fanouts and seed.
        batch_size: Seeds of each device's mini-batch.
        devices: Their number and the conditions' beta are not used.
        most: Most iterations counted; None for all. With fanouts 25,10, the mean edges of 32 of them have a standard
            error of 2 % with 64 seeds, and of .5 % with 1,024.
        notify: Receives a line for each algorithm that does not fit the graph and is left out.

    Raises:
        UsageError: The kernels can't compute the model.
        MemoryLimitError: There is too little memory to partition.
    """
    found, like = [], Workload.of(graph.characteristics(), task, batch_size)
    for count in counts:
        for algorithm in algorithms:
            try:
                run = dry_run(algorithm, graph, task, batch_size, count, most=most)
            except UsageError as error:
                notify(f"{algorithm.name} on {count} devices is left out: {error}")
                continue
            found.append(_estimate(run, like, devices._replace(platform=devices.platform.with_devices(count))))
    return found


def algorithm_lines(found: Sequence[AlgorithmEstimate]) -> Iterator[str]:
    """Yields a table of `found`; its first row is one device that stores all rows."""
    alone = found[0].epoch_s
    yield "epoch with each algorithm: beta and moved bytes are counted in mini-batches"
    yield "of the graph, seconds are predicted; one device stores all rows"
    yield from table(
        ("algorithm", "devices", "beta", "extras", "moved", "epoch s", "speed-up", "M NVTPS"),
        [
            (
                one.algorithm if one.devices > 1 else "one device",
                f"{one.devices}",
                f"{one.beta:.0%}",
                f"{one.moved:.0%}",
                format_size(round(one.moved_bytes)),
                f"{one.epoch_s:.3g}",
                f"{alone / one.epoch_s:.2f}",
                f"{one.nvtps / 1e6:.1f}",
            )
            for one in found
        ],
    )
    yield "extras: mini-batches that another partition's device trains, to end together"


@dataclass(frozen=True, slots=True)
class RankBatch:
    """A mini-batch that a rank would train."""

    counts: Counts  # nodes and edges, hop by hop
    hits: int  # input nodes whose features are in the rank's memory: whole rows, or its columns of all rows


@dataclass(frozen=True, slots=True, eq=False)
class DryRun:
    """The first epoch of an algorithm, with some of its iterations counted."""

    algorithm: Algorithm
    schedule: RankSchedule  # the epoch's schedule
    iterations: list[list[RankBatch | None]]  # mini-batches of each counted iteration, by rank; None for an idle rank
    widths: tuple[int, ...]  # columns of the features that each rank stores
    stored_bytes: int  # features on the fullest rank, dense and in float32
    partition_s: float  # seconds of partitioning

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.widths)

    @property
    def batches(self) -> list[RankBatch]:
        """All counted mini-batches."""
        return [batch for row in self.iterations for batch in row if batch is not None]

    @property
    def beta(self) -> float:
        """Share of the input rows in the ranks' own memory (HitGNN, Eq. 7), in [0, 1]."""
        return sum(one.hits for one in self.batches) / sum(one.counts.input_nodes for one in self.batches)


def dry_run(
    algorithm: Algorithm, graph: Graph, task: Task, batch_size: int, ranks: int, *, most: int | None = None
) -> DryRun:
    """Partitions `graph`, and samples the first epoch's mini-batches that `a3gnn train --algorithm` would train.

    Args:
        algorithm: Partitions the graph, and decides what each rank stores.
        graph: The graph.
        task: Its fanouts and seed are used.
        batch_size: Seeds of each rank's mini-batch.
        ranks: Number of ranks.
        most: Most iterations counted, evenly spread over the epoch; None for all.

    Raises:
        UsageError: The algorithm does not fit the graph.
        MemoryLimitError: There is too little memory to partition.
    """
    begin = perf_counter()
    parts = algorithm.parts(graph, ranks, task.seed)
    partition_s = perf_counter() - begin
    stored = [algorithm.stored(graph, parts, rank, ranks) for rank in range(ranks)]
    iterations = Iterations(graph.train_ids, parts, ranks, batch_size, task.seed, balanced=algorithm.balanced)
    planned, count = iterations.of(0), len(iterations)
    chosen = np.unique(np.linspace(0, count - 1, count if most is None else min(most, count)).round().astype(np.int64))
    sampler = Sampler(graph.edges, task.fanouts, seed=task.seed)
    kept = [_mask(graph, one) for one in stored]
    found = [
        [_counted(sampler, batch, mask) for batch, mask in zip(planned[place], kept, strict=True)] for place in chosen
    ]
    stored_bytes = max(VALUE_BYTES * len(one.nodes) * one.width for one in stored)
    widths = tuple(one.width for one in stored)
    return DryRun(algorithm, iterations.schedule, found, widths, stored_bytes, partition_s)


@dataclass(frozen=True, slots=True)
class PredictedIteration:
    """The mini-batches that devices train at the same time."""

    work: tuple[Workload | None, ...]  # the work of each device; None for an idle one
    hits: tuple[int, ...]  # input rows that each device stores itself; 0 for an idle one
    widths: tuple[int, ...]  # columns of the features that each device stores

    @classmethod
    def of(cls, row: Sequence[RankBatch | None], widths: tuple[int, ...], like: Workload) -> Self:
        """Returns the iteration of the mini-batches in `row`, for the graph and the model of `like`."""
        work = [
            None
            if one is None
            else dataclasses.replace(
                like,
                vertices=tuple(reversed(one.counts.nodes)),
                edges=tuple(edges for _, _, edges in one.counts.layers),
            )
            for one in row
        ]
        return cls(tuple(work), tuple(0 if one is None else one.hits for one in row), widths)

    def seconds(self, platform: Platform, parts: Sequence[Rates], given: Conditions) -> float:
        """Returns the seconds until the slowest device, and the slowest of its `parts`, is done."""
        return max(
            self._of_split(rank, platform, rates, given)
            if self._is_split
            else self._of_rows(rank, platform, rates, given)
            for rank in range(len(self.work))
            for rates in parts
        )

    def moved_bytes(self, given: Conditions) -> float:
        """Returns the bytes that come from or through host memory, without gradients of weights."""
        if self._is_split:
            return sum(self._exchanged_bytes(rank) for rank in range(len(self.work)))
        copies = 1 if given.direct else INDIRECT
        return copies * sum(
            VALUE_BYTES * one.widths[0] * (one.vertices[0] - hits)
            for one, hits in zip(self.work, self.hits, strict=True)
            if one is not None
        )

    @property
    def _busy(self) -> list[Workload]:
        return [one for one in self.work if one is not None]

    @property
    def _is_split(self) -> bool:
        return min(self.widths) < self._busy[0].widths[0]

    def _of_rows(self, rank: int, platform: Platform, rates: Rates, given: Conditions) -> float:
        own = self.work[rank]
        if own is None:
            return 0.0
        there = dataclasses.replace(given, beta=self.hits[rank] / own.vertices[0])
        return float(iteration_seconds(own, rates, platform, there)[0])

    def _of_split(self, rank: int, platform: Platform, rates: Rates, given: Conditions) -> float:
        """Returns the seconds of a device that has some columns of all rows (P3): our extension of the model.

        It computes the input layer of every mini-batch with its columns, sends the partial sums to the devices of these
        mini-batches, and receives those of its own. Gradients are exchanged in the same way. Then it continues with its
        own mini-batch.
        """
        local, own = dataclasses.replace(given, beta=1.0), self.work[rank]
        computing = given.loss_seconds + self._exchanged_bytes(rank) / platform.device_link_bytes_per_s
        for one in self._busy:
            narrow = dataclasses.replace(one, widths=(self.widths[rank], *one.widths[1:]))
            computing += _input_seconds(narrow, platform, rates, local)
        if own is not None:
            computing += float(work_seconds(own, rates, platform, local).whole[0])
            computing -= _input_seconds(own, platform, rates, local)
        return max(given.sampling_seconds, computing) + synchronization_seconds(self._busy[0], platform)

    def _exchanged_bytes(self, rank: int) -> float:
        """Returns the bytes of partial sums and their gradients that a device sends; it receives as many meanwhile."""
        wide = self._busy[0].widths[1]
        sums = [0.0 if one is None else VALUE_BYTES * wide * one.vertices[1] for one in self.work]
        others = len(self.work) - 1
        return sum(sums) - sums[rank] + others * sums[rank]


def _estimate(run: DryRun, like: Workload, devices: Devices) -> AlgorithmEstimate:
    seconds, moved_bytes = 0.0, 0.0
    for row in run.iterations:
        iteration = PredictedIteration.of(row, run.widths, like)
        seconds += iteration.seconds(*devices)
        moved_bytes += iteration.moved_bytes(devices.given)
    scale = len(run.schedule) / len(run.iterations)
    epoch_s, vertices = scale * seconds, scale * sum(one.counts.traversed_nodes for one in run.batches)
    traversed = float(nvtps(vertices, epoch_s))
    return AlgorithmEstimate(
        algorithm=run.algorithm.name,
        devices=run.ranks,
        iterations=len(run.schedule),
        beta=run.beta,
        moved=float(run.schedule.moved.sum() / np.count_nonzero(run.schedule.weights)),
        stored_bytes=run.stored_bytes,
        partition_s=run.partition_s,
        epoch_s=epoch_s,
        nvtps=traversed,
        nvtps_per_gb_per_s=nvtps_per_gb_per_s(traversed, devices.platform.memory_bytes_per_s),
        moved_bytes=scale * moved_bytes,
    )


def _mask(graph: Graph, stored: Stored) -> NDArray[np.bool_]:
    mask = np.zeros(graph.num_nodes, dtype=np.bool_)
    mask[stored.nodes] = True
    return mask


def _counted(sampler: Sampler, batch: PlannedBatch, kept: NDArray[np.bool_]) -> RankBatch | None:
    if not len(batch.seeds):
        return None
    subgraph = sampler.sample(batch.seeds, epoch=0, batch=batch.index)
    return RankBatch(counts_of(subgraph), int(np.count_nonzero(kept[subgraph.n_id])))


def _input_seconds(work: Workload, platform: Platform, rates: Rates, local: Conditions) -> float:
    """Returns the seconds of layer 1, forward and backward."""
    found = layer_seconds(work, 1, rates, platform, local)
    return float((found.whole + found.update)[0])
