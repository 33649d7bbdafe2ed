"""`Balanced`: divides among trainers of one kind by measured seconds; another controller divides between kinds."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from a3gnn.hybrid.assignment import Assignment, divide
from a3gnn.hybrid.control import drift
from a3gnn.hybrid.control.controller import Controller, ShareBounds
from a3gnn.hybrid.schedule import Schedule
from a3gnn.hybrid.stage_times import StageTimes, TrainerKind

#: Standard errors by which an expected gain must exceed 0. Noise does so by chance in about a percent of cases.
_CLEAR = 4.0
#: Standard errors by which a longer iteration must exceed the old one for a change to be taken back: 95 %.
_SLOWER = 2.0
#: Measurements in a row that must have drifted, because a single one may be an accident.
_IN_A_ROW = 2


class _Trial(NamedTuple):
    """A change that is not judged yet."""

    before: Assignment  # the division before the change
    cost: float  # measured cost of that division: seconds per mini-batch for a change of shares, per seed for threads
    error: float  # standard error of `cost`
    step: int  # threads that a trainer got (1) or gave (-1); 0 for a change of shares


class Balanced:
    """Divides among trainers of one kind by their measured speeds; between kinds another controller divides.

    Algorithm 1 and `FittedScaling` treat the trainers of a kind as equal. Here each trainer gets seeds in proportion to
    its measured seeds per second, if that is expected to shorten the iteration by `hysteresis`, and by more than
    measurements scatter. A change that is measured to be slower is taken back. If the time of stages drifts, one thread
    less and one thread more are tried, because more threads than free cores make all of a trainer wait.

    Args:
        between: Makes the controller between kinds, anew after each change among trainers of one kind. It takes the
            bounds, and the least gain that counts.
        schedule: The stages that overlap.
        threads: Most threads of the host for each trainer.
        most_seeds: Returns the seeds that fit into each trainer's memory; None if not known or not bounded.
        hysteresis: Least gain that counts, as a share of the iteration.
    """

    def __init__(
        self,
        between: Callable[[ShareBounds, float], Controller],
        schedule: Schedule,
        threads: Sequence[int],
        most_seeds: Callable[[], Sequence[int | None]],
        hysteresis: float = drift.LEAST_GAIN,
    ) -> None:
        self._make, self._schedule, self._hysteresis = between, schedule, hysteresis
        self._threads, self._most_seeds = tuple(threads), most_seeds
        self._between: Controller | None = None
        self._current: Assignment | None = None
        self._windows: list[StageTimes] = []
        self._fresh = 0  # measurements that the controller between kinds has not seen
        self._settled: StageTimes | None = None
        self._least = drift.CHANGED
        self._trial: _Trial | None = None
        self._futile, self._steps = 0, list[int]()

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Returns the division to measure next; `assignment` while it has too few measurements."""
        if assignment != self._current:
            self._current, self._windows, self._settled, self._fresh = assignment, [], None, 0
        self._windows, self._fresh = [*self._windows, times][-drift.KEPT :], self._fresh + 1
        if self._has_drifted():
            self._windows, self._fresh = self._windows[-_IN_A_ROW:], _IN_A_ROW
            self._settled = self._between = None
            self._futile, self._steps = 0, [-1, 1]
        if len(self._windows) < drift.MEASURED:
            return assignment
        if self._trial is not None:
            trial, self._trial = self._trial, None
            if not self._is_kept(trial):
                self._futile += 1
                return trial.before
            self._futile, self._between = 0, None
            self._steps = [trial.step, *self._steps] if trial.step else self._steps
        return self._changed(assignment)

    def _changed(self, assignment: Assignment) -> Assignment:
        if self._futile < drift.PATIENCE and (balanced := self._balanced(assignment)) is not None:
            return self._try(balanced, assignment)
        if (divided := self._divided(assignment)) != assignment:
            return divided
        while self._steps:
            step = self._steps.pop(0)
            if (threaded := self._threaded(assignment, step)) is not None:
                return self._try(threaded, assignment, step)
        if self._settled is None:
            self._settled, self._least = StageTimes.mean(self._windows), max(drift.CHANGED, _CLEAR * self._scatter())
        return assignment

    def _try(self, changed: Assignment, assignment: Assignment, step: int = 0) -> Assignment:
        self._trial = _Trial(assignment, *self._cost(step), step)
        return changed

    def _is_kept(self, trial: _Trial) -> bool:
        """Returns whether a change stays: shares unless they are clearly slower, threads only if they are faster.

        A change of shares was predicted from measurements. A change of threads was not, so it must prove itself.
        """
        cost, error = self._cost(trial.step)
        if trial.step:
            return cost < (1 - self._hysteresis) * trial.cost
        return cost <= trial.cost + _SLOWER * math.hypot(error, trial.error)

    def _cost(self, step: int) -> tuple[float, float]:
        """Returns the mean cost of a trial, and its standard error.

        More threads make a trainer faster, but shorten an iteration only once it has more seeds. So a change of threads
        is judged by the seeds that all trainers together could train per second.
        """
        costs = [_seconds_per_seed(self._current, one) if step else drift.iteration_of(one) for one in self._windows]
        return statistics.fmean(costs), drift.standard_error(costs)

    def _seconds(self) -> float:
        return statistics.fmean(drift.iteration_of(times) for times in self._windows)

    def _scatter(self) -> float:
        """Returns the standard deviation of a measured iteration, as a share of the mean."""
        return drift.deviation([drift.iteration_of(times) for times in self._windows]) / self._seconds()

    def _has_drifted(self) -> bool:
        last = self._windows[-_IN_A_ROW:]
        if self._settled is None or len(last) < _IN_A_ROW:
            return False
        ways = [{(one.stage, one.slower) for one in drift.drifts(self._settled, times, self._least)} for times in last]
        return bool(set.intersection(*ways))

    def _balanced(self, assignment: Assignment) -> Assignment | None:
        """Returns `assignment` with shares by speed; None if the expected gain is too small."""
        mean = StageTimes.mean(self._windows)
        kinds, shares, speeds = assignment.kinds, list(assignment.shares), [0.0] * len(assignment.shares)
        for kind in dict.fromkeys(kinds):
            places = [place for place, share in enumerate(shares) if share and kinds[place] == kind]
            own = [shares[place] / _seconds_of(mean, place) for place in places]
            parts = divide(sum(shares[place] for place in places) - len(places), own)
            for place, part, speed in zip(places, parts, own, strict=True):
                shares[place], speeds[place] = part + 1, speed
        most = self._most_seeds()
        if shares == list(assignment.shares) or any(
            bound is not None and was < share > bound
            for bound, was, share in zip(most, assignment.shares, shares, strict=True)
        ):
            return None
        if self._gain(mean, assignment.shares, shares) < self._hysteresis:
            return None
        gains = [self._gain(times, assignment.shares, shares) for times in self._windows]
        if statistics.fmean(gains) < _CLEAR * drift.standard_error(gains):
            return None
        usual = statistics.fmean(speed for speed in speeds if speed)
        weights = tuple(speed or usual for speed in speeds)
        return dataclasses.replace(assignment, shares=tuple(shares), weights=weights)

    def _gain(self, times: StageTimes, before: Sequence[int], after: Sequence[int]) -> float:
        """Returns the share of an iteration that the shares `after` are expected to save."""

        def scaled(seconds: Sequence[float]) -> tuple[float, ...]:
            each = zip(seconds, before, after, strict=True)
            return tuple(value * new / old if old else value for value, old, new in each)

        then = dataclasses.replace(times, training=scaled(times.training), transfer=scaled(times.transfer))
        now = self._schedule.iteration_seconds(times.by_stage)
        return (now - self._schedule.iteration_seconds(then.by_stage)) / drift.iteration_of(times)

    def _divided(self, assignment: Assignment) -> Assignment:
        """Returns the division of the controller between kinds, from the measurements that it has not seen."""
        if len(set(assignment.kinds)) < 2 or self._fresh < drift.MEASURED:
            return assignment
        if self._between is None:
            error = drift.standard_error([drift.iteration_of(times) for times in self._windows]) / self._seconds()
            bounds = ShareBounds(self._most_on_accelerators(assignment), threads=False)
            self._between = self._make(bounds, max(self._hysteresis, _CLEAR * error))
        mean, self._fresh = StageTimes.mean(self._windows[-self._fresh :]), 0
        return self._between.adjust(assignment, mean)

    def _most_on_accelerators(self, assignment: Assignment) -> int:
        """Returns the most seeds of all accelerators together, so that each one's share fits."""
        kind: TrainerKind = "accelerator"
        places = [place for place, own in enumerate(assignment.kinds) if own == kind]
        weights = [assignment.weights[place] if assignment.weights else 1.0 for place in places]
        known = [(self._most_seeds()[place], weight) for place, weight in zip(places, weights, strict=True)]
        fits = [int(most * sum(weights) / weight) for most, weight in known if most is not None]
        return min([assignment.batch_size, *fits])

    def _threaded(self, assignment: Assignment, step: int) -> Assignment | None:
        """Returns `assignment` with a thread less of the trainer with most, or one more; None if none can change."""
        now = assignment.trainer_threads
        given = zip(assignment.kinds, assignment.shares, strict=True)
        at_work = [place for place, (kind, share) in enumerate(given) if now and kind == "processor" and share]
        can = [place for place in at_work if (now[place] > 1 if step < 0 else now[place] < self._threads[place])]
        if not can:
            return None
        place = max(can, key=lambda place: (now[place] if step < 0 else self._threads[place] - now[place], -place))
        threads = tuple(number + step * (at == place) for at, number in enumerate(now))
        stages = dataclasses.replace(assignment.threads, training=assignment.threads.training + step)
        return dataclasses.replace(assignment, trainer_threads=threads, threads=stages)


def _seconds_of(times: StageTimes, place: int) -> float:
    """Returns the longer of a trainer's copy and its work, which overlap."""
    return max(times.training[place], times.transfer[place], 1e-9)


def _seconds_per_seed(assignment: Assignment | None, times: StageTimes) -> float:
    """Returns the seconds per seed of all trainers together, if each were busy all the time."""
    assert assignment is not None, "it was measured"
    return 1 / sum(share / _seconds_of(times, place) for place, share in enumerate(assignment.shares))
