"""`Hyperbatches`: samples many mini-batches ahead, and reads the rows that they need from the disk once.

A mini-batch is a pure function of its seed, epoch and index, so the rows of the next ones are known early. Their
distinct rows, read in the order of the file, take a small part of the time that reads row by row take.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from time import perf_counter

from a3gnn.config import TrainConfig
from a3gnn.features.ahead import AheadCache, Half
from a3gnn.features.host_store import DenseHostStore
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import SampledBatch, Stages
from a3gnn.threads import pool
from a3gnn.threads.ordered_map import WAKE_S, ordered_map

#: Least hyperbatches per epoch: the first one is read before training begins. Guess.
_LEAST_PER_EPOCH = 4
#: Seconds between two checks of progress.
_CHECK_S = 0.002


class Hyperbatches:
    """Fills the cache of one epoch's mini-batches, a hyperbatch at a time.

    While mini-batches of one hyperbatch are trained, a thread samples the next one and reads its rows. A hyperbatch
    ends where half of the cache is full. Mini-batches are handed out as the next hyperbatch advances, so that each one
    takes its share of the disk's time, and any few of them show the speed of all.

    No thread waits for the caller. If the mini-batches of the last but one hyperbatch are still under way, further
    ones are handed out before their rows are in memory, and read them through the memory map.

    Args:
        stages: Sample, and keep the samples until they are gathered. Their store has the cache, if there is one.
        config: Its mode and workers decide how many threads sample.
        num_batches: Mini-batches of an epoch.

    Attributes:
        done: How many mini-batches the caller has finished; it counts them.
    """

    def __init__(self, stages: Stages, config: TrainConfig, num_batches: int) -> None:
        self._stages = stages
        self._workers = 1 if config.parallel_mode == "sequential" else config.num_workers
        self._most = max(self._workers + 2, -(-num_batches // _LEAST_PER_EPOCH))
        self._expected = self._most
        self._sampling_share, self._progress = 0.5, 0.0
        self._stops = False
        self._place = 0
        self._sampled: Iterator[tuple[PlannedBatch, SampledBatch]] = iter(())
        self._returned: list[tuple[PlannedBatch, SampledBatch]] = []
        self.done = 0

    def batches(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[PlannedBatch, None, None]:
        """Yields `planned`, each once its rows are in memory; at once without a cache, or if another epoch uses it."""
        cache = self._stages.store.ahead if isinstance(self._stages.store, DenseHostStore) else None
        if cache is None or not cache.in_use.acquire(blocking=False):
            yield from planned
            return

        def sample(one: PlannedBatch) -> tuple[PlannedBatch, SampledBatch]:
            with pool.limited(1):
                return one, self._stages.sample(epoch, one)

        try:
            with closing(ordered_map(sample, planned, self._workers)) as sampled:
                self._sampled = sampled
                yield from self._in_turn(cache)
        finally:
            self._stages.held.clear()
            cache.in_use.release()

    def _in_turn(self, cache: AheadCache) -> Generator[PlannedBatch, None, None]:
        given = 0
        with ThreadPoolExecutor(1, "a3gnn-worker") as executor:

            def begin() -> Future[list[PlannedBatch]]:
                self._progress = 0.0
                self._place ^= 1
                return executor.submit(self._prepare, cache, cache.halves[self._place])

            try:
                coming = begin()
                while ready := _result(coming):
                    start, paced, following = given, 0, None
                    for place, one in enumerate(ready):
                        if following is None and self.done >= start:
                            following, paced = begin(), place
                        if following is not None:
                            self._pace(following, (place - paced) / (len(ready) - paced))
                        given += 1
                        yield one
                    while following is None:
                        if self.done >= start:
                            following = begin()
                        elif (pair := self._next()) is None:
                            return
                        else:
                            given += 1
                            yield self._kept(*pair)
                    coming = following
            finally:
                self._stops = True

    def _prepare(self, cache: AheadCache, half: Half) -> list[PlannedBatch]:
        """Samples the next hyperbatch and reads its rows to `half`; returns its mini-batches, none at the end."""
        cache.empty(half)
        taken, begin = list[PlannedBatch](), perf_counter()
        while (pair := self._next()) is not None:
            one, sampled = pair
            ids, nbytes = sampled.subgraph.n_id, sampled.subgraph.nbytes
            if self._stops or (taken and (len(taken) >= self._most or not half.fits(ids, nbytes))):
                self._returned.append(pair)
                break
            half.add(ids, nbytes)
            taken.append(self._kept(one, sampled))
            self._progress = self._sampling_share * min(len(taken) / self._expected, 1.0)
        share, read = self._sampling_share, perf_counter()
        self._expected = max(len(taken), 1)
        if taken:
            cache.load(half, lambda part: self._notified(share + (1 - share) * part))
            self._sampling_share = (read - begin) / max(perf_counter() - begin, 1e-9)
        return taken

    def _next(self) -> tuple[PlannedBatch, SampledBatch] | None:
        return self._returned.pop() if self._returned else next(self._sampled, None)

    def _notified(self, progress: float) -> bool:
        self._progress = progress
        return self._stops

    def _kept(self, one: PlannedBatch, sampled: SampledBatch) -> PlannedBatch:
        self._stages.held[sampled.epoch, sampled.index] = sampled
        return one

    def _pace(self, following: Future[list[PlannedBatch]], share: float) -> None:
        """Waits until the share `share` of the next hyperbatch is ready."""
        while self._progress < share and not following.done():
            wait([following], _CHECK_S)


def _result(coming: Future[list[PlannedBatch]]) -> list[PlannedBatch]:
    while not coming.done():
        wait([coming], WAKE_S)
    return coming.result()
