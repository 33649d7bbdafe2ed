"""`Isolation`: what threads and cores a pipeline's stages have, found by measurement or asked for (section 3.4)."""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain, cycle, islice
from threading import Barrier
from time import perf_counter
from typing import Literal, TypeAlias

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.pipeline.allocation.allocate import STAGES, Allocation, Stage, StageModel, allocate, fit
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import SampledBatch, Stages
from a3gnn.threads import affinity, pool
from a3gnn.threads.hold import held
from a3gnn.threads.ordered_map import ordered_map

# Mini-batches that are sampled and gathered to be timed, steps that warm up, and repetitions of each number of threads.
# Guesses.
PROFILED, WARM_UP, REPEATS = 4, 2, 3
# A step on one of many cores may take as long as an epoch: training is not timed with fewer threads than an eighth of
# the cores. Guess.
_MAX_CORES_PER_THREAD = 8
# More than the share of a processor's caches that one core has. Guess.
_COPIED_BYTES = 1 << 25


class StageProfile:
    """Collects times, and fits the stage models to their medians.

    What is sampled and gathered to be timed is thrown away: sampling is a pure function of its arguments. Where threads
    speed these stages up, that takes as long as `4 + 6 * log2(2 * workers)` mini-batches' sampling and 25 gathers on
    one thread each. Training is timed on the mini-batches that are trained on anyway: two warm up, then three
    have each of at most four numbers of threads.

    Args:
        cores: The most threads of a stage.
        workers: The most mini-batches that are sampled at once; each takes the sampler's scratch memory.

    Attributes:
        input_nodes: Median rows of features of a mini-batch; 0 before loading has been timed.
    """

    def __init__(self, cores: int, workers: int) -> None:
        self.input_nodes = 0.0
        self._cores, self._workers = cores, min(workers, cores)
        self._times: dict[Stage, dict[int, list[float]]] = {stage: defaultdict(list) for stage in STAGES}

    def add(self, stage: Stage, threads: int, seconds: float) -> None:
        """Takes note of a mini-batch's `seconds` in `stage` with `threads` threads."""
        self._times[stage][threads].append(seconds)

    def medians(self, stage: Stage) -> dict[int, float]:
        """Returns the median seconds of a mini-batch by number of threads."""
        return {threads: statistics.median(times) for threads, times in sorted(self._times[stage].items())}

    def models(self) -> dict[Stage, StageModel]:
        """Returns each stage's model.

        Sampling is proportional to 1 / threads: each mini-batch has a thread of its own. The gather has a part that no
        thread takes off, as in the paper, and so has training: on a GPU it is all of it.

        Raises:
            UsageError: A stage has not been timed.
        """
        found = {stage: self.medians(stage) for stage in STAGES}
        return {
            stage: fit(list(times), list(times.values()), fixed=stage != "sampling") for stage, times in found.items()
        }

    def training_schedule(self) -> list[tuple[int, bool]]:
        """Returns with how many threads to train each of the mini-batches to come, and whether to count its time."""
        counts = [count for count in thread_counts(self._cores) if count * _MAX_CORES_PER_THREAD >= self._cores]
        return [(self._cores, False)] * WARM_UP + [(count, True) for count in counts] * REPEATS

    def time_loading(self, stages: Stages, epoch: int, planned: Sequence[PlannedBatch]) -> None:
        """Times sampling and gather alone with 1, 2, 4, ... threads, in rounds, on `planned`, never empty."""
        sampled = [stages.sample(epoch, batch) for batch in planned]
        self.input_nodes = statistics.median(batch.subgraph.num_nodes for batch in sampled)
        stages.release(stages.gather(sampled[0]))  # finds its buffer
        for _ in range(REPEATS):
            for threads in thread_counts(self._workers):
                self.add("sampling", threads, _sampling_seconds(stages, epoch, planned, threads))
            for threads in thread_counts(self._cores):
                with pool.limited(threads):
                    for batch in sampled:
                        begin = perf_counter()
                        gathered = stages.gather(batch)
                        if gathered.arrival is not None:
                            gathered.arrival.seconds()  # the copy to a device is part of it
                        self.add("gather", threads, perf_counter() - begin)
                        stages.release(gathered)


def thread_counts(cores: int) -> list[int]:
    """Returns the numbers of threads that are timed: powers of two up to `cores`, and `cores`."""
    return sorted({*(2**power for power in range(cores.bit_length())), cores})


def copy_bytes_per_s(cores: int) -> float:
    """Returns the bytes per second that `cores` threads copy in memory, the fastest of a few."""
    source, target = np.ones(_COPIED_BYTES, dtype=np.uint8), np.empty(_COPIED_BYTES, dtype=np.uint8)

    def copy(low: int, high: int) -> None:
        np.copyto(target[low:high], source[low:high])

    times = []
    with pool.limited(cores):
        for _ in range(1 + REPEATS):
            begin = perf_counter()
            pool.in_chunks(copy, _COPIED_BYTES, 1 << 19)
            times.append(perf_counter() - begin)
    return _COPIED_BYTES / min(times)


def _sampling_seconds(stages: Stages, epoch: int, planned: Iterable[PlannedBatch], threads: int) -> float:
    """Returns the seconds per mini-batch where `threads` threads sample one each at a time."""
    batches = list(islice(cycle(planned), 2 * threads))
    started = Barrier(threads)
    with ThreadPoolExecutor(threads) as executor:
        try:
            list(executor.map(lambda _: started.wait(), range(threads)))
        finally:
            started.abort()  # those who wait for a thread that never came would wait for ever
        begin = perf_counter()
        list(executor.map(partial(stages.sample, epoch), batches))
        return (perf_counter() - begin) / len(batches)


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
                yield self._gathered(result) if isinstance(result, SampledBatch) else result

    def _loaded(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch | SampledBatch, None, None]:
        if self._mode == "sequential":
            return (self._stages.sample(epoch, batch) for batch in planned)
        return ordered_map(partial(self._load, epoch), planned, self._workers)

    def _load(self, epoch: int, planned: PlannedBatch) -> MiniBatch | SampledBatch:
        """Returns what a worker makes of `planned`."""
        with self._sampling.entered():
            if self._mode == "mode1" and self._allocation.pooled:
                return self._stages.complete(epoch, planned)
            sampled = self._stages.sample(epoch, planned)
        if self._mode == "mode2":
            return sampled
        with self._gather.entered():
            return self._stages.gather(sampled)

    def _gathered(self, sampled: SampledBatch) -> MiniBatch:
        """Returns the mini-batch, gathered on the caller's thread."""
        with pool.limited(self._allocation.gather, self._places["gather"]):
            return self._stages.gather(sampled)


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
