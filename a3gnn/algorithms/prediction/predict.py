"""`predict_algorithms`: HitGNN's model (section VI-B) along an epoch of each algorithm, mini-batch by mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from a3gnn.algorithms.algorithm import Algorithm
from a3gnn.algorithms.prediction.dry_run import DryRun, dry_run
from a3gnn.algorithms.prediction.iteration import Iteration
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.nvtps import nvtps, nvtps_per_gb_per_s
from a3gnn.platforms.metadata import Platform
from a3gnn.platforms.performance import Conditions, Rates
from a3gnn.platforms.workload import Workload
from a3gnn.task import Task

#: Iterations that are counted at most. Guess: their mean is then known to a percent or two.
MOST_ITERATIONS = 32


class AlgorithmEstimate(NamedTuple):
    """What is predicted of an algorithm on so many devices; nothing of it is measured but partitioning.

    Attributes:
        algorithm: Its name.
        devices: How many.
        iterations: Of an epoch.
        beta: Share of the input rows that devices' own memory has: counted, in the graph's mini-batches.
        moved: Share of the mini-batches that another partition's device trains (two-stage scheduling).
        stored_bytes: Features that the fullest device keeps, dense and in float32.
        partition_s: Seconds of partitioning, on this machine.
        epoch_s: Seconds of an epoch.
        nvtps: Vertices traversed per second.
        nvtps_per_gb_per_s: That by the bandwidth of all memory.
        moved_bytes: That devices read from host memory in an epoch, or send each other by way of it: rows, and P3's
            partial sums and their gradients; weights' gradients left out.
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

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return self._asdict()


def predict_algorithms(
    algorithms: Iterable[Algorithm],
    counts: Sequence[int],
    graph: Graph,
    task: Task,
    batch_size: int,
    platform: Platform,
    parts: Sequence[Rates],
    given: Conditions,
    most: int | None = MOST_ITERATIONS,
    notify: Callable[[str], None] = lambda line: None,
) -> list[AlgorithmEstimate]:
    """Returns what each algorithm would reach on each of `counts` devices, by device counts, then by algorithms.

    An iteration takes what its slowest device takes, by that device's mini-batch, as it was sampled, and by the share
    of its rows that the device stores.

    Args:
        algorithms: Which.
        counts: Numbers of devices.
        graph: The graph.
        task: The model, its widths, fanouts and seed.
        batch_size: Seeds of each device's mini-batch.
        platform: Where; its number of devices is not used.
        parts: The design: rates of each kind of die.
        given: What else an iteration depends on; beta is not used.
        most: Iterations that are counted at most; None for all.
        notify: Is told which algorithm does not fit the graph, on how many devices, and is left out.

    Raises:
        UsageError: The kernels don't compute the model.
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
            found.append(_estimate(run, like, platform.with_devices(count), parts, given))
    return found


def _estimate(
    run: DryRun, like: Workload, platform: Platform, parts: Sequence[Rates], given: Conditions
) -> AlgorithmEstimate:
    seconds, moved_bytes = 0.0, 0.0
    for row in run.iterations:
        iteration = Iteration.of(row, run.widths, like)
        seconds += iteration.seconds(platform, parts, given)
        moved_bytes += iteration.moved_bytes(given)
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
        nvtps_per_gb_per_s=nvtps_per_gb_per_s(traversed, platform.memory_bytes_per_s),
        moved_bytes=scale * moved_bytes,
    )
