"""`Isolation`: what threads and cores a pipeline's stages have, found by measurement or asked for (section 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from time import perf_counter
from typing import Literal, TypeAlias

from a3gnn.config import TrainConfig
from a3gnn.runtime.allocation.allocate import allocate
from a3gnn.runtime.allocation.allocation import Allocation
from a3gnn.runtime.allocation.isolated_run import IsolatedRun
from a3gnn.runtime.allocation.profile import PROFILED, StageProfile, copy_bytes_per_s
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.runtime.stages import Stages
from a3gnn.threads import affinity, pool
from a3gnn.threads.hold import held

MiniBatches: TypeAlias = Generator[MiniBatch, None, None]
Run: TypeAlias = Callable[[int, Iterable[PlannedBatch]], MiniBatches]


class Isolation:
    """Gives stages threads and cores of their own: those asked for, or those that measured models recommend.

    To find them, `auto` first times sampling and gather alone, then has mini-batches trained one after the other with a
    few numbers of threads, as they are due. Mini-batches are the same, bit for bit, however that goes.

    Threads are pinned where the system can do that and nothing says that the process is to use fewer cores than it may
    run on (a quota, OMP_NUM_THREADS): which of them others use is not known then. The caller's thread has its own
    threads and cores back when an epoch ends or is closed.

    Args:
        stages: Of the pipeline.
        config: Its mode and workers matter.
        resources: auto, or what to give.
        row_bytes: Bytes of a node's features: with the measured copy rate they bound mini-batches per second.

    Attributes:
        allocation: What the stages have; None until `auto` has found it.
        profile: What `auto` has measured.
    """

    def __init__(
        self, stages: Stages, config: TrainConfig, resources: Literal["auto"] | Allocation, row_bytes: int
    ) -> None:
        self._stages = stages
        self._config = config
        self._row_bytes = row_bytes
        self._threads = pool.usable_cores()
        self._cores = affinity.home() if self._threads == len(affinity.home()) else frozenset[int]()
        self.profile = StageProfile(self._threads, config.num_workers)
        # Longer than PROFILED: mini-batches that are looked at ahead are all trained here.
        self._schedule = self.profile.training_schedule()
        self.allocation: Allocation | None = None
        self._isolated: Run | None = None
        if isinstance(resources, Allocation):
            self._settle(resources)
        elif config.parallel_mode == "sequential" or self._threads < 2:
            self._settle(allocate({}, config.parallel_mode, config.num_workers, self._threads))

    @property
    def batches_left_to_profile(self) -> int:
        """Mini-batches that are yet to be trained one after the other before stages have what `auto` finds."""
        return 0 if self.allocation is not None else len(self._schedule)

    def batches(self, epoch: int, planned: Iterable[PlannedBatch], compete: Run) -> MiniBatches:
        """Yields the mini-batches of `planned` in order.

        Args:
            epoch: Of the mini-batches.
            planned: Of one part, in the order of training.
            compete: Yields them where stages don't have cores of their own.
        """
        rest = iter(planned)
        if self.allocation is None:
            with closing(self._profiling(epoch, rest)) as batches:
                yield from batches
        with closing((self._isolated or compete)(epoch, rest)) as batches:
            yield from batches

    def _profiling(self, epoch: int, planned: Iterator[PlannedBatch]) -> MiniBatches:
        """Yields mini-batches, and times their training, until enough is known or `planned` ends."""
        if not self.profile.input_nodes:
            ahead = list(islice(planned, PROFILED))
            self.profile.time_loading(self._stages, epoch, ahead)
            planned = chain(ahead, planned)
        while self._schedule and (due := next(planned, None)) is not None:
            threads, counts = self._schedule[0]
            batch = self._stages.complete(epoch, due)
            with held(threads):
                begin = perf_counter()
                yield batch
                seconds = perf_counter() - begin
            if counts:
                self.profile.add("training", threads, seconds)
            # Only now: a mini-batch whose training was broken off is not counted.
            del self._schedule[:1]
        if not self._schedule:
            self._settle(self._best())

    def _best(self) -> Allocation:
        """Returns what the measured models recommend."""
        floor = self.profile.input_nodes * self._row_bytes / copy_bytes_per_s(self._threads)
        config, models = self._config, self.profile.models()
        return allocate(models, config.parallel_mode, config.num_workers, self._threads, floor)

    def _settle(self, allocation: Allocation) -> None:
        self.allocation = allocation
        if allocation.isolated:
            self._isolated = IsolatedRun(self._stages, self._config, allocation, self._cores).batches
