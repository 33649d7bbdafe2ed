"""`Searching`: searches for another preparation of one trainer's mini-batches once its stage times have changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from a3gnn.config import ParallelMode
from a3gnn.pipeline.preparation import Preparation
from a3gnn.training.adapting.drift import CHANGED, LEAST_GAIN, Drift, drifts, iteration_of, shown, standard_error
from a3gnn.training.adapting.recorded import MEASURED
from a3gnn.training.adapting.stage_times import StageTimes

#: Most mini-batches ahead per worker; more don't smooth any better. Guess.
_DEEPEST = 2
_WITH_WORKERS: tuple[ParallelMode, ...] = ("mode1", "mode2")
#: Least seconds of a measurement, over any number of mini-batches. Other work on a machine comes in bursts of tenths of
#: a second, which three measurements in a row outlast. Guess.
_SPAN_S = 0.25
#: Measurements before the running preparation is judged; measurements that are kept, after which it is judged again;
#: measurements of a tried preparation. Guesses.
_LEAST, _KEPT, _OF_TRIED = 4, 8, 3
#: Standard errors by which a gain must exceed 0.
_CLEAR = 3.0
#: If measurements scatter by the drift threshold, it grows by this factor, up to this limit. Guesses.
_WIDER, _WIDEST = 1.5, 8.0
#: Measurements in a row that must have drifted: one or two may be accidents.
_IN_A_ROW = 3
#: A trial ends after one measurement that is longer than the best by this factor. Guess.
_HOPELESS = 1.1
#: Most preparations measured in a search, including the first, before the best stays. Guess.
_MOST = 10
#: Measurements to wait after a search without a gain, doubled after each further one, and their limit. Guess.
_REST, _LONGEST_REST = 8, 256


class Candidates:
    """Preparations that differ from the current one in one number, or in the mode.

    Args:
        start: The first preparation; it limits the cache's volume.
        cores: Most workers, unless `start` has more.
        can_resize: Whether the cache's volume may differ.
        fits: Whether there is memory to replace the second preparation by the first.
    """

    def __init__(
        self, start: Preparation, cores: int, *, can_resize: bool, fits: Callable[[Preparation, Preparation], bool]
    ) -> None:
        self._start, self._most = start, max(cores, start.workers)
        self._can_resize, self._fits = can_resize, fits

    def near(self, now: Preparation, times: StageTimes, least: float, *, loading: bool) -> list[Preparation]:
        """Returns the preparations that are worth a try, the fastest expected one first.

        In sequential mode stages don't slow each other down, so their times bound the gain from workers. Preparations
        that can't gain `least` are left out. In other modes stages slow each other down, so nothing is left out.

        Args:
            now: The measured preparation.
            times: Its measured times.
            least: Least gain, as a share of an iteration.
            loading: Whether the loading time has changed, so that other volumes of the cache are tried, too.
        """
        most = iteration_of(times) * (1 - least) if now.mode == "sequential" else float("inf")
        found = [one for one in dict.fromkeys(self._all(now, loading)) if one != now and self._fits(one, now)]
        expected = {one: bound(one, times) for one in found}
        resized = [one for one in found if one.cache_bytes != now.cache_bytes]
        others = [one for one in found if one.cache_bytes == now.cache_bytes and expected[one] < most]
        return sorted(others, key=expected.__getitem__) + resized

    def _all(self, now: Preparation, loading: bool) -> Iterator[Preparation]:
        yield replace(self._start, cache_bytes=now.cache_bytes)
        yield replace(now, mode="sequential", workers=0, depth=0)
        for mode in _WITH_WORKERS:
            if now.mode == "sequential":
                for workers in sorted({1, min(2, self._most), self._most}):
                    yield replace(now, mode=mode, workers=workers, depth=workers)
            else:
                yield replace(now, mode=mode)
        if now.mode != "sequential":
            for workers in (now.workers - 1, now.workers + 1):
                if 1 <= workers <= self._most:
                    yield replace(now, workers=workers, depth=workers)
            for depth in (now.workers, now.depth + 1):
                if depth <= _DEEPEST * now.workers:
                    yield replace(now, depth=depth)
        if loading and self._can_resize and self._start.cache_bytes:
            for cache_bytes in (self._start.cache_bytes, now.cache_bytes // 2):
                yield replace(now, cache_bytes=cache_bytes)


class Searching:
    """Tries preparations near the current one once stages have drifted, and keeps the best measured one.

    Nothing is tried before a stage's time changes. Then each preparation near the current one is measured for some
    mini-batches, in the order of their bounds from stage times. The search continues from a preparation that gains at
    least `hysteresis` and more than measurements scatter. After a search without a gain, the next one has to wait.

    Args:
        candidates: The preparations to try.
        expected: The tune's times of the first preparation, with its iteration; None if unknown. The run's own first
            measurements replace it if they are no slower.
        hysteresis: Least gain, as a share of an iteration.
        span_s: Least seconds of mini-batches per measurement.

    Attributes:
        why: The reason of the latest change for messages.
        drift: The stage whose time has changed; None before the first drift.
    """

    def __init__(
        self,
        candidates: Candidates,
        expected: StageTimes | None = None,
        hysteresis: float = LEAST_GAIN,
        span_s: float = _SPAN_S,
    ) -> None:
        self._candidates, self._hysteresis, self._span_s = candidates, hysteresis, span_s
        self._expected: StageTimes | None = expected
        self._current: Preparation | None = None
        self._span: list[StageTimes] = []
        self._windows: list[StageTimes] = []
        self._settled: StageTimes | None = None
        self._least = CHANGED
        self._search: _Search | None = None
        self._wanted: Preparation | None = None
        self._is_sure, self._due, self._rest, self._pause = False, False, 0, _REST
        self.why = ""
        self.drift: Drift | None = None

    def adjust(self, assignment: Preparation, times: StageTimes) -> Preparation:
        """Returns the preparation to measure next; `assignment` itself for no change."""
        if assignment != self._current:
            if assignment != self._wanted:  # it was changed from outside
                self._search, self._due = None, False
            self._current, self._windows, self._settled, self._is_sure = assignment, [], None, False
            self._span = []
        self._span.append(times)
        if MEASURED * sum(map(iteration_of, self._span)) < self._span_s:
            return assignment
        times, self._span = StageTimes.mean(self._span), []
        self._windows = [*self._windows, times][-_KEPT:]
        self._rest = max(0, self._rest - 1)
        if self._search is not None:
            self._wanted = self._tried(self._search, assignment)
            return self._wanted
        if self._settled is None:
            if len(self._windows) < _LEAST:
                return assignment
            if self._due:
                self._wanted = self._begin(assignment)
                return self._wanted
            self._settle()
        self._look()
        if not self._due and not self._is_sure and len(self._windows) == _KEPT:
            self._is_sure = True
            self._settle()
        return assignment

    def _settle(self) -> None:
        """Makes the present times the reference for drifts; at first the tune's times, if these were faster."""
        now, expected = StageTimes.mean(self._windows), self._expected
        self._settled, self._least = now, CHANGED
        while self._least < _WIDEST and any(drifts(now, one, self._least) for one in self._windows):
            self._least *= _WIDER  # measurements differ this much without any change
        if expected is not None and iteration_of(now) > (1 + self._least) * iteration_of(expected):
            self._settled = expected

    def _look(self) -> None:
        """Notes a drift of stages, so that a search begins after enough measurements of their present times."""
        last = self._windows[-_IN_A_ROW:]
        if self._settled is None or self._rest or len(last) < _IN_A_ROW:
            return
        found = [drifts(self._settled, one, self._least) for one in last]
        common = set.intersection(*({(one.stage, one.slower) for one in each} for each in found))
        drifted = [one for one in found[-1] if (one.stage, one.slower) in common]
        if drifted:
            self.drift, self._expected = drifted[0], None
            self._windows, self._settled, self._is_sure, self._due = last, None, False, True

    def _begin(self, now: Preparation) -> Preparation:
        self._due = False
        assert self.drift is not None, "a stage drifted"
        here, loading = self._measured(now), self.drift.stage == "loading"
        queue = self._near(now, loading)
        self._search = _Search(here, here, queue, {now}, loading)
        return self._next(self._search)

    def _near(self, now: Preparation, loading: bool) -> list[Preparation]:
        return self._candidates.near(now, StageTimes.mean(self._windows), self._hysteresis, loading=loading)

    def _tried(self, search: _Search, now: Preparation) -> Preparation:
        """Judges the tried preparation once its result is clear, and returns the preparation to measure next."""
        mine = self._measured(now)
        hopeless = mine.seconds > _HOPELESS * search.best.seconds
        if len(self._windows) < _OF_TRIED and not hopeless:
            return now
        if self._gains(search.best, mine):
            queue = [one for one in self._near(now, search.loading) if one not in search.tried]
            search = search._replace(best=mine, queue=queue)
        self._search = search
        return self._next(search)

    def _next(self, search: _Search) -> Preparation:
        """Returns the next preparation to try, or the best one if none is left."""
        if search.queue and len(search.tried) < _MOST:
            following = search.queue.pop(0)
            search.tried.add(following)
            self.why = f"tried, because {self._because()}"
            return following
        self._search = None
        best, begin = search.best, search.begin
        has_gained = best.preparation != begin.preparation
        self._rest = 0 if has_gained else self._pause
        self._pause = _REST if has_gained else min(2 * self._pause, _LONGEST_REST)
        self.why = f"the best of {len(search.tried)} tried, at {shown(best.seconds)} per mini-batch"
        return best.preparation

    def _because(self) -> str:
        assert self.drift is not None, "a stage drifted"
        return f"{self.drift.stage} takes {shown(self.drift.now_s)} now and took {shown(self.drift.before_s)} before"

    def _gains(self, before: _Measured, now: _Measured) -> bool:
        clear = before.seconds - now.seconds > _CLEAR * math.hypot(before.error, now.error)
        return clear and now.seconds < (1 - self._hysteresis) * before.seconds

    def _measured(self, now: Preparation) -> _Measured:
        seconds = [iteration_of(one) for one in self._windows]
        error = standard_error(seconds) if len(seconds) > 1 else 0.0
        return _Measured(now, statistics.fmean(seconds), error)


def bound(preparation: Preparation, times: StageTimes) -> float:
    """Returns a lower bound on a mini-batch's seconds if stage times don't change (A3GNN, section III-B)."""
    prepared, trained = times.sampling_processor + times.loading, max(times.training) + max(times.transfer)
    if preparation.mode == "sequential":
        return prepared + trained
    if preparation.mode == "mode1":
        return max(trained, prepared / preparation.workers)
    return max(times.loading + trained, times.sampling_processor / preparation.workers)


class _Measured(NamedTuple):
    """A preparation, the mean seconds of its mini-batches, and their standard error."""

    preparation: Preparation
    seconds: float
    error: float


class _Search(NamedTuple):
    """A running search.

    Attributes:
        begin: The preparation at its start.
        best: The best preparation so far.
        queue: Preparations still to try.
        tried: All tried preparations, including the current one.
        loading: Whether other cache volumes are tried, too.
    """

    begin: _Measured
    best: _Measured
    queue: list[Preparation]
    tried: set[Preparation]
    loading: bool
