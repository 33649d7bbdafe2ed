"""`Isolation`: gives a pipeline's stages threads and cores of their own, measured or requested (BGL, section 3.4)."""

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
from a3gnn.pipeline.allocate import STAGES, Allocation, Stage, StageModel, allocate, fit
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import SampledBatch, Stages
from a3gnn.threads import affinity, pool
from a3gnn.threads.hold import held
from a3gnn.threads.ordered_map import ordered_map

MiniBatches: TypeAlias = Generator[MiniBatch, None, None]
Run: TypeAlias = Callable[[int, Iterable[PlannedBatch]], MiniBatches]

# Mini-batches to sample and gather for timing, warm-up steps, and repetitions of each number of threads: the
# protocol of docs/design/isolation.md.
PROFILED, WARM_UP, REPEATS = 4, 2, 3
# A step on one of many cores may take as long as an epoch, so training is timed with at least an eighth of the cores.
_MAX_CORES_PER_THREAD = 8
# More than one core's share of a processor's caches. Guess.
_COPIED_BYTES = 1 << 25


class StageProfile:
    """Collects times, and fits the stage models to their medians.

    Mini-batches sampled and gathered for timing are discarded, because sampling is a pure function of its arguments. If
    threads speed up these stages, this takes as long as sampling `4 + 6 * log2(2 * workers)` mini-batches and 25
    gathers, on one thread each. Training is timed on mini-batches that are trained anyway: two for warm-up, then three
    for each of at most four numbers of threads.

    Args:
        cores: Maximum number of threads of a stage.
        workers: Maximum number of mini-batches sampled at once; each takes the sampler's scratch memory.

    Attributes:
        input_nodes: Median number of feature rows of a mini-batch; 0 before loading has been timed.
    """

    def __init__(self, cores: int, workers: int) -> None:
        self.input_nodes = 0.0
        self._cores, self._workers = cores, min(workers, cores)
        self._times: dict[Stage, dict[int, list[float]]] = {stage: defaultdict(list) for stage in STAGES}

    def add(self, stage: Stage, threads: int, seconds: float) -> None:
        """Records a mini-batch's `seconds` in `stage` with `threads` threads."""
        self._times[stage][threads].append(seconds)

    def medians(self, stage: Stage) -> dict[int, float]:
        """Returns the median seconds of a mini-batch by number of threads."""
        return {threads: statistics.median(times) for threads, times in sorted(self._times[stage].items())}

    def models(self) -> dict[Stage, StageModel]:
        """Returns each stage's model.

        Sampling time is proportional to 1 / threads, because each mini-batch has a thread of its own. Gather has a part
        that threads do not reduce, as in the paper, and so has training; on a GPU this part is the whole time.

        Raises:
            UsageError: A stage has not been timed.
        """
        found = {stage: self.medians(stage) for stage in STAGES}
        return {
            stage: fit(list(times), list(times.values()), fixed=stage != "sampling") for stage, times in found.items()
        }

    def training_schedule(self) -> list[tuple[int, bool]]:
        """Returns, for each of the next mini-batches, its number of threads in training and whether its time counts."""
        counts = [count for count in thread_counts(self._cores) if count * _MAX_CORES_PER_THREAD >= self._cores]
        return [(self._cores, False)] * WARM_UP + [(count, True) for count in counts] * REPEATS

    def time_loading(self, stages: Stages, epoch: int, planned: Sequence[PlannedBatch]) -> None:
        """Times sampling and gather by themselves with 1, 2, 4, ... threads, in rounds; `planned` must not be empty."""
        sampled = [stages.sample(epoch, batch) for batch in planned]
        self.input_nodes = statistics.median(batch.subgraph.num_nodes for batch in sampled)
        stages.release(stages.gather(sampled[0]))  # warm-up, which allocates the buffer
        for _ in range(REPEATS):
            for threads in thread_counts(self._workers):
                self.add("sampling", threads, _sampling_seconds(stages, epoch, planned, threads))
            for threads in thread_counts(self._cores):
                with pool.limited(threads):
                    for batch in sampled:
                        begin = perf_counter()
                        gathered = stages.gather(batch)
                        if gathered.arrival is not None:
                            gathered.arrival.seconds()  # waits, because the copy to a device counts as gather
                        self.add("gather", threads, perf_counter() - begin)
                        stages.release(gathered)


class IsolatedRun:
    """Runs the stages of a pipeline under an allocation. Epochs under way at once share the workers' cores.

    Args:
        stages: The pipeline's stages.
        config: Its mode and workers are used.
        allocation: Threads of each stage.
        cores: Cores to pin threads to. If they are fewer than the allocation needs, or none, threads are not pinned.
    """

    def __init__(self, stages: Stages, config: TrainConfig, allocation: Allocation, cores: frozenset[int]) -> None:
        self._stages = stages
        self._mode, self._workers = config.parallel_mode, config.num_workers
        self._allocation = allocation
        self._places = allocation.places(self._mode, cores)
        # Pooled workers gather their mini-batches on the cores of sampling.
        threads = allocation.gather if allocation.pooled else 1
        self._sampling = _CoreGroup(allocation.sampling, threads, self._places["sampling"])
        self._gather = _CoreGroup(1, allocation.gather, self._places["gather"])

    def batches(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch, None, None]:
        """Yields the mini-batches of `planned` in order; the caller trains each before it requests the next."""
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
        """Samples `planned` on a worker, and in mode 1 also gathers it."""
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


class Isolation:
    """Gives stages threads and cores of their own: a requested allocation, or the one that measured models recommend.

    To find an allocation, `auto` first times sampling and gather by themselves. Then it times the training of the next
    mini-batches, one after the other, with a few numbers of threads. Mini-batches stay bit-identical.

    Threads are pinned if the system supports it, and if the process may use all cores that it can run on. With a quota
    or OMP_NUM_THREADS it may use fewer, and it is unknown which cores other processes use. When an epoch ends or is
    closed, the caller's thread gets its own threads and cores back.

    Args:
        stages: The pipeline's stages.
        config: Its mode and workers are used.
        resources: auto, or the requested allocation.
        row_bytes: Bytes of a node's features; with the measured copy rate, they bound mini-batches per second.

    Attributes:
        allocation: The stages' allocation; None until `auto` has found it.
        profile: The measurements of `auto`.
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
        # Longer than PROFILED, so all mini-batches taken ahead for timing are trained here.
        self._schedule = self.profile.training_schedule()
        self.allocation: Allocation | None = None
        self._isolated: Run | None = None
        if isinstance(resources, Allocation):
            self._settle(resources)
        elif config.parallel_mode == "sequential" or self._threads < 2:
            self._settle(allocate({}, config.parallel_mode, config.num_workers, self._threads))

    @property
    def batches_left_to_profile(self) -> int:
        """Mini-batches left to train one after the other until `auto` has found an allocation."""
        return 0 if self.allocation is not None else len(self._schedule)

    def batches(self, epoch: int, planned: Iterable[PlannedBatch], compete: Run) -> MiniBatches:
        """Yields the mini-batches of `planned` in order.

        Args:
            epoch: Epoch of the mini-batches.
            planned: Mini-batches of one part, in the order of training.
            compete: Yields the mini-batches if stages don't have cores of their own.
        """
        rest = iter(planned)
        if self.allocation is None:
            with closing(self._profiling(epoch, rest)) as batches:
                yield from batches
        with closing((self._isolated or compete)(epoch, rest)) as batches:
            yield from batches

    def _profiling(self, epoch: int, planned: Iterator[PlannedBatch]) -> MiniBatches:
        """Yields mini-batches, and times their training, until the schedule or `planned` ends."""
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
            # Only now, so that a mini-batch whose training was interrupted does not count.
            del self._schedule[:1]
        if not self._schedule:
            self._settle(self._best())

    def _best(self) -> Allocation:
        """Returns the allocation that the measured models recommend."""
        floor = self.profile.input_nodes * self._row_bytes / copy_bytes_per_s(self._threads)
        config, models = self._config, self.profile.models()
        return allocate(models, config.parallel_mode, config.num_workers, self._threads, floor)

    def _settle(self, allocation: Allocation) -> None:
        self.allocation = allocation
        if allocation.isolated:
            self._isolated = IsolatedRun(self._stages, self._config, allocation, self._cores).batches


def thread_counts(cores: int) -> list[int]:
    """Returns the numbers of threads to time: powers of two up to `cores`, and `cores`."""
    return sorted({*(2**power for power in range(cores.bit_length())), cores})


def copy_bytes_per_s(cores: int) -> float:
    """Returns the bytes per second that `cores` threads copy in memory, as the fastest of a few runs."""
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
    """Returns the seconds per mini-batch if each of `threads` threads samples one at a time."""
    batches = list(islice(cycle(planned), 2 * threads))
    started = Barrier(threads)
    with ThreadPoolExecutor(threads) as executor:
        try:
            list(executor.map(lambda _: started.wait(), range(threads)))
        finally:
            started.abort()  # otherwise threads would wait forever for one that failed to start
        begin = perf_counter()
        list(executor.map(partial(stages.sample, epoch), batches))
        return (perf_counter() - begin) / len(batches)


class _CoreGroup:
    """The cores on which workers run a stage: at most `at_once` workers at once, with `threads` threads each."""

    def __init__(self, at_once: int, threads: int, cores: frozenset[int]) -> None:
        self._gate = threading.Semaphore(at_once)
        self._threads = threads
        self._cores = cores

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Waits until fewer than `at_once` workers use the cores, then limits the calling worker to them."""
        with self._gate, pool.limited(self._threads, self._cores):
            affinity.pin(self._cores)
            yield
