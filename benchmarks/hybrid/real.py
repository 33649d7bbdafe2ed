"""Real trainers on this machine's processors: what stages and epochs take, in several divisions that alternate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter

from a3gnn.config import ParallelMode, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.share import cut, seed_bounds
from a3gnn.task import Task
from a3gnn.training.hybrid.counts import counts_of
from a3gnn.training.hybrid.stage_times import StageTimes
from a3gnn.training.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.training.hybrid.trainers.request import Trainers

BATCH = 1024
#: Mini-batches whose shares are counted.
_COUNTED = 4
#: Parts of an iteration that are compared; the rest of it is the update of the weights, and handing over.
STAGES = ("sampling", "loading", "training", "synchronisation", "iteration")


@dataclass(frozen=True, slots=True)
class Division:
    """Trainers on processors.

    Attributes:
        threads: Of each trainer.
        shares: Seeds of each, a mini-batch together.
        mode: mode1 prepares mini-batches ahead with a worker of its own.
    """

    threads: tuple[int, ...]
    shares: tuple[int, ...]
    mode: ParallelMode = "sequential"

    @property
    def batch_size(self) -> int:
        """Seeds of a mini-batch."""
        return sum(self.shares)

    def __str__(self) -> str:
        """For people: trainers by threads, and shares where there are several."""
        trainers = " + ".join(f"cpu:{own}" for own in self.threads)
        parts = f", {' + '.join(map(str, self.shares))} seeds" if len(self.shares) > 1 else ""
        return trainers + parts + (", a worker ahead" if self.mode == "mode1" else "")

    def open(self, graph: Graph, task: Task) -> HybridTrainer:
        """Returns these trainers of `task` on `graph`."""
        config = TrainConfig(batch_size=self.batch_size, parallel_mode=self.mode)
        asked = Trainers(",".join(f"cpu:{own}" for own in self.threads), self.shares)
        made = asked.on(graph, config, task)
        return HybridTrainer(
            graph, config, task, devices=made.devices, assignment=made.assignment, stall_s=asked.stall_s
        )


#: The comparison of the issue: the same two cores for one trainer, or for two.
COMPARED = tuple(
    Division(threads, shares, mode)
    for mode in ("sequential", "mode1")
    for threads, shares in (((2,), (BATCH,)), ((1, 1), (BATCH // 2, BATCH // 2)))
)
#: Those that the performance model is judged by; the first is the run that it is calibrated with.
PREDICTED = (
    COMPARED[0],
    Division((1,), (BATCH,)),
    COMPARED[1],
    Division((1, 1), (3 * BATCH // 4, BATCH // 4)),
)


@dataclass(slots=True)
class Measured:
    """What one division took.

    Attributes:
        traversed: Edges of a whole mini-batch, over all layers and trainers (the numerator of Eq. 5).
        epoch_edges: Of an epoch, by seeds.
        times: Of each whole mini-batch but the first of an epoch, with `iteration`.
        epochs: Seconds per epoch, one per round.
    """

    traversed: float
    epoch_edges: float
    times: list[StageTimes] = field(default_factory=list)
    epochs: list[float] = field(default_factory=list)

    @property
    def mteps(self) -> list[float]:
        """Millions of traversed edges per second, one per round (Eq. 5)."""
        return [self.epoch_edges / seconds / 1e6 for seconds in self.epochs]

    @property
    def median(self) -> StageTimes:
        """The median of each field: other work on the machine makes some mini-batches long."""
        known = self.times

        def of(name: str) -> float:
            return statistics.median(getattr(one, name) for one in known)

        def each(name: str) -> tuple[float, ...]:
            return tuple(map(statistics.median, zip(*(getattr(one, name) for one in known), strict=True)))

        return StageTimes(
            known[0].kinds,
            of("sampling_processor"),
            of("sampling_accelerators"),
            of("loading"),
            each("transfer"),
            each("training"),
            of("synchronisation"),
            of("iteration"),
        )


def measure(graph: Graph, task: Task, divisions: Sequence[Division], rounds: int) -> dict[Division, Measured]:
    """Returns what `divisions` take: an epoch each to warm up, then an epoch each in every round, alternating."""
    with ExitStack() as stack:
        trainers = {one: stack.enter_context(one.open(graph, task)) for one in divisions}
        found = {one: _counted(trainer, len(graph.train_ids)) for one, trainer in trainers.items()}
        for epoch in range(rounds + 1):
            for one, trainer in trainers.items():
                into = found[one] if epoch else Measured(0.0, 0.0)
                _epoch(trainer, epoch, into)
    return found


def _epoch(trainer: HybridTrainer, epoch: int, into: Measured) -> None:
    ends, whole = [perf_counter()], []
    for step in trainer.steps(epoch):
        ends.append(perf_counter())
        assert trainer.times is not None
        whole.append(trainer.times if step.seeds == trainer.config.batch_size else None)
    taken = [later - before for before, later in pairwise(ends)]
    into.epochs.append(sum(taken))
    into.times.extend(one.with_iteration(own) for one, own in list(zip(whole, taken, strict=True))[1:] if one)


def _counted(trainer: HybridTrainer, seeds: int) -> Measured:
    shares = trainer.assignment.shares
    found = []
    for batch in trainer.first_samples(_COUNTED):
        bounds = seed_bounds(batch.num_seeds, shares)
        found.append(sum(counts_of(cut(batch, low, high)).traversed_edges for low, high in pairwise(bounds)))
    traversed = statistics.fmean(found)
    return Measured(traversed, traversed * seeds / trainer.config.batch_size)


def stage_seconds(times: StageTimes) -> tuple[float, ...]:
    """Returns the seconds of each of `STAGES`; training is the slowest trainer's."""
    assert times.iteration is not None
    return (
        times.sampling_processor,
        times.loading,
        max(times.training),
        times.synchronisation,
        times.iteration,
    )
