"""`IsolatedRun`: an epoch's mini-batches under an allocation, each stage on its own threads and cores."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial

from a3gnn.config import TrainConfig
from a3gnn.runtime.allocation.allocation import Allocation
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.runtime.stages import Sampled, Stages
from a3gnn.threads import affinity, pool
from a3gnn.threads.hold import held
from a3gnn.threads.ordered_map import ordered_map


class _CoreGroup:
    """Where workers do a stage: some at once, each with so many threads, all on the same cores."""

    def __init__(self, at_once: int, threads: int, cores: frozenset[int]) -> None:
        self._gate = threading.Semaphore(at_once)
        self._threads = threads
        self._cores = cores

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Keeps the calling worker to the cores, once fewer than `at_once` workers are on them."""
        with self._gate, pool.limited(self._threads, self._cores):
            affinity.pin(self._cores)
            yield


class IsolatedRun:
    """Runs the stages of a pipeline under an allocation. Epochs under way at once share the workers' cores.

    Args:
        stages: Of the pipeline.
        config: Its mode and workers matter.
        allocation: Threads of each stage.
        cores: Those to pin threads to; none pin no thread, nor do fewer than the allocation takes.
    """

    def __init__(self, stages: Stages, config: TrainConfig, allocation: Allocation, cores: frozenset[int]) -> None:
        self._stages = stages
        self._mode, self._workers = config.parallel_mode, config.num_workers
        self._allocation = allocation
        self._places = allocation.places(self._mode, cores)
        # Pooled workers gather what they sampled on the cores of sampling.
        threads = allocation.gather if allocation.pooled else 1
        self._sampling = _CoreGroup(allocation.sampling, threads, self._places["sampling"])
        self._gather = _CoreGroup(1, allocation.gather, self._places["gather"])

    def batches(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch, None, None]:
        """Yields the mini-batches of `planned` in order; the caller trains each before it asks for the next."""
        with (
            held(self._allocation.training, self._places["training"]),
            closing(self._loaded(epoch, planned)) as results,
        ):
            for result in results:
                yield self._gathered(result) if isinstance(result, Sampled) else result

    def _loaded(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch | Sampled, None, None]:
        if self._mode == "sequential":
            return (self._stages.sample(epoch, batch) for batch in planned)
        return ordered_map(partial(self._load, epoch), planned, self._workers)

    def _load(self, epoch: int, planned: PlannedBatch) -> MiniBatch | Sampled:
        """Returns what a worker makes of `planned`."""
        with self._sampling.entered():
            if self._mode == "mode1" and self._allocation.pooled:
                return self._stages.complete(epoch, planned)
            sampled = self._stages.sample(epoch, planned)
        if self._mode == "mode2":
            return sampled
        with self._gather.entered():
            return self._stages.gather(sampled)

    def _gathered(self, sampled: Sampled) -> MiniBatch:
        """Returns the mini-batch, gathered on the caller's thread."""
        with pool.limited(self._allocation.gather, self._places["gather"]):
            return self._stages.gather(sampled)
