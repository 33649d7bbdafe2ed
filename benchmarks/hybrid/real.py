"""Real trainers on this machine's processors: what stages and epochs take, in several divisions that alternate."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter, thread_time

from torch import Tensor

from a3gnn.config import ParallelMode, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.nvtps import mteps
from a3gnn.runtime.batch import MiniBatch
from a3gnn.sampling.share import cut, seed_bounds
from a3gnn.task import Task
from a3gnn.training.hybrid.counts import counts_of
from a3gnn.training.hybrid.devices.processor import ProcessorDevice
from a3gnn.training.hybrid.stage_times import StageTimes
from a3gnn.training.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.training.hybrid.trainers.request import Trainers

BATCH = 1024
#: Mini-batches whose shares are counted.
_COUNTED = 4
#: What is compared. Trainers of one thread are timed by what they compute, too: other work of the machine lengthens
#: seconds, and hardly the processor's time (CPU).
STAGES = (
    *("sampling", "loading", "training", "synchronised", "iteration"),
    *("training, CPU", "iteration, CPU"),
)


class TimedProcessor(ProcessorDevice):
    """Knows the processor's time as well; see `ProcessorDevice`.

    Attributes:
        computed_s: Processor seconds of the last launch, NaN with several threads.
    """

    computed_s = float("nan")

    def launch(self, kernel: Callable[[MiniBatch], Tensor], batch: MiniBatch) -> Tensor:
        """Returns what `kernel` has computed of `batch`."""
        begin = thread_time()
        out = super().launch(kernel, batch)
        if self.threads == 1:
            self.computed_s = thread_time() - begin
        return out


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
        """For people: the seeds of each trainer."""
        parts = (f"{share} on cpu:{own}" for share, own in zip(self.shares, self.threads, strict=True))
        return ", ".join(parts) + ("; ahead" if self.mode == "mode1" else "")

    def open(self, graph: Graph, task: Task) -> HybridTrainer:
        """Returns these trainers of `task` on `graph`."""
        config = TrainConfig(batch_size=self.batch_size, parallel_mode=self.mode)
        asked = Trainers(",".join(f"cpu:{own}" for own in self.threads), self.shares)
        devices = [TimedProcessor(f"cpu:{own}", own) for own in self.threads]
        assignment = asked.on(graph, config, task).assignment
        return HybridTrainer(graph, config, task, devices=devices, assignment=assignment, stall_s=asked.stall_s)


#: The same two threads for one trainer, and for two: pairs, each of one mode.
COMPARED = tuple(
    Division(threads, shares, mode)
    for mode in ("sequential", "mode1")
    for threads, shares in (((2,), (BATCH,)), ((1, 1), (BATCH // 2, BATCH // 2)))
)
#: Those that the performance model is judged by; the first is the run that it is calibrated with.
PREDICTED = (
    Division((1,), (BATCH,)),
    COMPARED[0],
    COMPARED[1],
    Division((1, 1), (3 * BATCH // 4, BATCH // 4)),
    Division((1, 1), (7 * BATCH // 8, BATCH // 8)),
)


@dataclass(slots=True)
class Measured:
    """What one division took.

    Attributes:
        traversed: Edges of a whole mini-batch, over all layers and trainers (the numerator of Eq. 5).
        epoch_edges: Of an epoch, by seeds.
        times: Of each whole mini-batch but the first of an epoch, with `iteration`.
        computed: Processor seconds of each trainer, of the same mini-batches.
        epochs: Seconds per epoch, one per round.
    """

    traversed: float
    epoch_edges: float
    times: list[StageTimes] = field(default_factory=list)
    computed: list[tuple[float, ...]] = field(default_factory=list)
    epochs: list[float] = field(default_factory=list)

    @property
    def mteps(self) -> list[float]:
        """Millions of traversed edges per second, one per round (Eq. 5)."""
        return [mteps(self.epoch_edges, seconds) for seconds in self.epochs]

    @property
    def undisturbed(self) -> StageTimes:
        """The median of each field, with processor time for training: about what an idle machine would take.

        With more threads than one per trainer, that is NaN.
        """
        known = [
            dataclasses.replace(
                times, training=computed, iteration=_iteration(times) - max(times.training) + max(computed)
            )
            for times, computed in zip(self.times, self.computed, strict=True)
        ]

        def of(name: str) -> float:
            return statistics.median(getattr(one, name) for one in known)

        def each(name: str) -> tuple[float, ...]:
            return tuple(map(statistics.median, zip(*(getattr(one, name) for one in known), strict=True)))

        sampling = of("sampling_processor"), of("sampling_accelerators")
        last = of("synchronisation"), of("iteration")
        return StageTimes(known[0].kinds, *sampling, of("loading"), each("transfer"), each("training"), *last)

    @property
    def stage_seconds(self) -> tuple[float, ...]:
        """Seconds of each of `STAGES`, medians over mini-batches: other work on the machine makes some of them long."""
        rows = (stage_seconds(*one) for one in zip(self.times, self.computed, strict=True))
        return tuple(map(statistics.median, zip(*rows, strict=True)))


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
    begin = before = perf_counter()
    for step in trainer.steps(epoch):
        now = perf_counter()
        if step.index and step.seeds == trainer.config.batch_size:
            assert trainer.times is not None
            into.times.append(trainer.times.with_iteration(now - before))
            into.computed.append(tuple(one.computed_s for one in trainer.devices if isinstance(one, TimedProcessor)))
        before = now
    into.epochs.append(perf_counter() - begin)


def _counted(trainer: HybridTrainer, seeds: int) -> Measured:
    shares = trainer.assignment.shares
    found = []
    for batch in trainer.first_samples(_COUNTED):
        bounds = seed_bounds(batch.num_seeds, shares)
        found.append(sum(counts_of(cut(batch, low, high)).traversed_edges for low, high in pairwise(bounds)))
    traversed = statistics.fmean(found)
    return Measured(traversed, traversed * seeds / trainer.config.batch_size)


def stage_seconds(times: StageTimes, computed: Sequence[float] | None = None) -> tuple[float, ...]:
    """Returns `times` as `STAGES` are; training is the slowest trainer's.

    Args:
        times: Of a mini-batch.
        computed: Processor seconds of each trainer; None where they are the same.
    """
    training, whole = max(times.training), _iteration(times)
    alone = training if computed is None else max(computed)
    first = times.sampling_processor, times.loading, training, times.synchronisation, whole
    return (*first, alone, whole - training + alone)


def _iteration(times: StageTimes) -> float:
    assert times.iteration is not None
    return times.iteration
