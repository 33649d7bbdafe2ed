"""`Candidates`: which preparations of one trainer's mini-batches are worth a try, by what its stages take."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from a3gnn.config import ParallelMode
from a3gnn.runtime.preparation import Preparation
from a3gnn.training.hybrid.control.scatter import iteration_of
from a3gnn.training.hybrid.stage_times import StageTimes

#: Mini-batches ahead per worker, at most: more smooth nothing that fewer don't. Guess.
_DEEPEST = 2
_WITH_WORKERS: tuple[ParallelMode, ...] = ("mode1", "mode2")


class Candidates:
    """Preparations that differ from another one in one number, or in the mode.

    Args:
        start: The first preparation, which says how large the cache may be.
        cores: Workers at most, or as many as `start` has.
        can_resize: Whether the cache's volume may differ.
        fits: Whether there is memory for a preparation in place of the current one.
    """

    def __init__(
        self, start: Preparation, cores: int, *, can_resize: bool, fits: Callable[[Preparation, Preparation], bool]
    ) -> None:
        self._start, self._most = start, max(cores, start.workers)
        self._can_resize, self._fits = can_resize, fits

    def near(self, now: Preparation, times: StageTimes, least: float, *, loading: bool) -> list[Preparation]:
        """Returns what is worth a try, that which is expected to be fastest first.

        In sequential mode nothing hinders the stages, so that they bound what workers can reach; what is bound to gain
        less than `least` is left out. Stages beside each other are slower than alone: there, nothing is.

        Args:
            now: What was measured.
            times: Of it.
            least: Share of an iteration.
            loading: Whether the time of loading is what has changed, so that other volumes of the cache are tried, too.
        """
        most = iteration_of(times) * (1 - least) if now.mode == "sequential" else float("inf")
        found = [one for one in dict.fromkeys(self._all(now, loading)) if one != now and self._fits(one, now)]
        expected = {one: bound(one, times) for one in found}
        resized = [one for one in found if one.cache_bytes != now.cache_bytes]
        others = [one for one in found if one.cache_bytes == now.cache_bytes and expected[one] < most]
        return sorted(others, key=expected.__getitem__) + resized

    def _all(self, now: Preparation, loading: bool) -> Iterator[Preparation]:
        yield self._start.replace(cache_bytes=now.cache_bytes)
        yield now.replace(mode="sequential", workers=0, depth=0)
        for mode in _WITH_WORKERS:
            if now.mode == "sequential":
                for workers in sorted({1, min(2, self._most), self._most}):
                    yield now.replace(mode=mode, workers=workers, depth=workers)
            else:
                yield now.replace(mode=mode)
        if now.mode != "sequential":
            for workers in (now.workers - 1, now.workers + 1):
                if 1 <= workers <= self._most:
                    yield now.replace(workers=workers, depth=workers)
            for depth in (now.workers, now.depth + 1):
                if depth <= _DEEPEST * now.workers:
                    yield now.replace(depth=depth)
        if loading and self._can_resize and self._start.cache_bytes:
            for cache_bytes in (self._start.cache_bytes, now.cache_bytes // 2):
                yield now.replace(cache_bytes=cache_bytes)


def bound(preparation: Preparation, times: StageTimes) -> float:
    """Returns the least seconds of a mini-batch, if stages took what they take now (A3GNN, section III-B)."""
    prepared, trained = times.sampling_processor + times.loading, max(times.training) + max(times.transfer)
    if preparation.mode == "sequential":
        return prepared + trained
    if preparation.mode == "mode1":
        return max(trained, prepared / preparation.workers)
    return max(times.loading + trained, times.sampling_processor / preparation.workers)
