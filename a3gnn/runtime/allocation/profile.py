"""`StageProfile`: what each stage takes with some numbers of threads, measured on the task at hand."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from threading import Barrier
from time import perf_counter

import numpy as np

from a3gnn.runtime.allocation.stage_model import STAGES, Stage, StageModel, fit
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.runtime.stages import Stages
from a3gnn.threads import pool

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
