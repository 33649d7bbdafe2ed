"""`Hyperbatches`: samples many mini-batches ahead, and reads the rows that they need from the disk in sweeps.

A mini-batch is a pure function of its seed, epoch and index, so the rows of the next ones are known early. Their
distinct rows, read in the order of the file, take a small part of the time that reads row by row take.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress

from a3gnn.config import TrainConfig
from a3gnn.features.ahead import AheadCache
from a3gnn.features.host_store import DenseHostStore
from a3gnn.pipeline.divided import DividedStages
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import SampledBatch, Stages
from a3gnn.storage.blocks import READERS
from a3gnn.threads import pool
from a3gnn.threads.ordered_map import WORKERS, end_threads, ordered_map

#: Least sweeps per epoch: the first one passes the file before training begins. Guess.
_LEAST_PER_EPOCH = 4
#: Growth of the mini-batches per sweep, as long as they fit. Guess.
_GROWTH = 1.25
#: Seconds between two checks of progress.
_CHECK_S = 0.002


class Hyperbatches:
    """Fills the cache of one epoch's mini-batches while they are trained.

    For every mini-batch that is trained, a thread samples one and moves the sweep of the file on by its share, so that
    any few mini-batches show the speed of all. Mini-batches are handed out once their rows are in memory.

    No thread waits for the caller. If no mini-batch is ready and the sweep waits for room, the next one is handed out
    before its rows are in memory, and reads them through the memory map.

    Args:
        stages: Sample, and keep the samples until they are gathered. Their store has the cache, if there is one.
        config: Its mode and workers decide how many threads sample.
        num_batches: Mini-batches of an epoch.

    Attributes:
        done: How many mini-batches the caller has finished; it counts them.
    """

    def __init__(self, stages: Stages, config: TrainConfig, num_batches: int) -> None:
        self._stages = stages
        depths = stages.depths if isinstance(stages, DividedStages) else None
        ahead = 0 if config.parallel_mode == "sequential" else config.num_workers
        self._workers = max(ahead, 1)
        self._lag = (ahead if depths is None else sum(depths)) + 2  # the caller's, and one that waits for it
        self._most = max(self._lag, -(-num_batches // _LEAST_PER_EPOCH))
        self._per_sweep = self._due = 0.0
        self._in_sweep = 0
        self._stops = False
        self._sampled: Iterator[tuple[PlannedBatch, SampledBatch]] = iter(())
        self._refused: tuple[PlannedBatch, SampledBatch] | None = None
        self._line = deque[PlannedBatch]()
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

        stack = ExitStack()
        for end in (cache.in_use.release, cache.clear, self._stages.held.clear):  # the last one first
            stack.callback(end)
        self._sampled = ordered_map(sample, planned, self._workers)
        stack.callback(_close, self._sampled)
        readers, executor = (stack.enter_context(ThreadPoolExecutor(count, WORKERS)) for count in (READERS, 1))
        try:
            yield from self._in_turn(cache, readers, executor)
        finally:
            self._stops = True
            try:  # before `stack`: another thread may close it, and garbage collection the same generator meanwhile
                _close(self._sampled)
            finally:
                end_threads(stack.close)

    def _in_turn(
        self, cache: AheadCache, readers: ThreadPoolExecutor, executor: ThreadPoolExecutor
    ) -> Generator[PlannedBatch, None, None]:
        given, self._due = 0, float(cache.position)
        sweep = executor.submit(self._sweep, cache, readers)
        while True:
            if sweep.done():
                sweep.result()
                sweep = executor.submit(self._sweep, cache, readers)
            while cache.ready <= given and not sweep.done():
                wait([sweep], _CHECK_S)
            if cache.ready <= given:
                sweep.result()
                if not self._line and not self._add_next(cache, even_if_full=True):
                    return
            given += 1
            yield self._line.popleft()

    def _sweep(self, cache: AheadCache, readers: ThreadPoolExecutor) -> None:
        """Adds mini-batches and reads their rows until enough of them are ready, or until it needs the caller."""
        while not self._stops:
            while cache.finished < self.done:
                cache.finish()
            if cache.position + 1 <= self._due:
                if not cache.advance(readers):
                    return
                if cache.position % cache.num_chunks == 0:
                    self._per_sweep = min(_GROWTH * self._in_sweep + 1, self._most)
                    self._in_sweep = 0
            elif cache.ready - cache.finished >= self._lag or not (self._add_next(cache) or cache.unready):
                return
            else:
                self._due += cache.num_chunks / self._per_sweep

    def _add_next(self, cache: AheadCache, *, even_if_full: bool = False) -> bool:
        """Adds the next mini-batch to the cache; returns False if there is none, or if it does not fit."""
        pair, self._refused = self._refused or next(self._sampled, None), None
        if pair is None:
            return False
        one, sampled = pair
        ids, nbytes = sampled.subgraph.n_id, sampled.subgraph.nbytes
        if not even_if_full and (cache.unready >= self._most or not cache.fits(ids, nbytes, self._lag)):
            self._refused = pair
            return False
        self._stages.held[sampled.epoch, sampled.index] = sampled
        self._line.append(one)
        new = cache.add(ids, nbytes)
        self._in_sweep += 1
        if not self._per_sweep:  # in the mean, half of the rows that a sweep reads are in memory
            self._per_sweep = min(max(2 * cache.capacity / max(new, 1), 1.0), self._most)
        return True


def _close(sampled: Generator[object, None, None]) -> None:
    with suppress(ValueError):  # it is executing: the sweep draws from it, or garbage collection closes it
        sampled.close()
