"""`Recorded`: a controller at work in a real training run, and a record of what it changed, why, and what for."""

from __future__ import annotations

import dataclasses
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from a3gnn.training.adapting.drift import LEAST_GAIN, Drift, drifts, iteration_of, shown
from a3gnn.training.adapting.stage_times import Adjusted, Adjusts, StageTimes

#: Mini-batches per step of a controller. Guess.
MEASURED = 4


class ControlStep(NamedTuple, Generic[Adjusted]):
    """One step of a controller: the division, and the means of what was measured of it."""

    assignment: Adjusted
    times: StageTimes


class Managed(Generic[Adjusted]):
    """Lets a controller divide mini-batches, and ends after so many of its steps.

    A new division takes effect once the pipeline has drained: mini-batches of the old one are not counted, nor are the
    first ones of the new one, which ran beside them.

    Args:
        controller: Who decides.
        start: The first division.
        iterations: Steps of the controller; None for no end, and then no history is kept.
        measured: Mini-batches per step whose means it is given.
        skipped: Mini-batches of a division that are not counted: as many as the pipeline holds, of any or of each.

    Attributes:
        history: A division per step, and what was measured of it.
        current: The division after the last step.
    """

    def __init__(
        self,
        controller: Adjusts[Adjusted],
        start: Adjusted,
        iterations: int | None = 20,
        measured: int = MEASURED,
        skipped: int | Callable[[Adjusted], int] = 4,
    ) -> None:
        self._controller, self._iterations = controller, iterations
        self._wanted, self._skipped = measured, skipped if callable(skipped) else lambda _: skipped
        self._seen = 0
        self._times: list[StageTimes] = []
        self.current = start
        self.history: list[ControlStep[Adjusted]] = []

    def assignment(self) -> Adjusted | None:
        """Returns the current division, or None after the last step."""
        return None if self._has_ended else self.current

    @property
    def _has_ended(self) -> bool:
        return self._iterations is not None and len(self.history) >= self._iterations

    def drained(self) -> None:
        """Is told that the pipeline is empty, and fills anew: the first mini-batches do not count."""
        self._seen = 0

    def measured(self, assignment: Adjusted, times: StageTimes) -> None:
        """Counts `times`, and lets the controller decide when there are enough."""
        if assignment is not self.current or self._has_ended:
            return
        self._seen += 1
        if self._seen <= self._skipped(assignment):
            return
        self._times.append(times)
        if len(self._times) < self._wanted:
            return
        mean = StageTimes.mean(self._times)
        if self._iterations is not None:
            self.history.append(ControlStep(assignment, mean))
        self._times = []
        self.change(self._controller.adjust(assignment, mean))

    def change(self, adjusted: Adjusted) -> None:
        """Goes on with `adjusted`, whoever decided that; what was measured of another one counts no more."""
        if adjusted != self.current:
            self.current, self._seen, self._times = adjusted, 0, []


#: Measurements whose mean is told. Guess.
_TOLD = 3


@dataclass(slots=True, kw_only=True)
class Change(ABC):
    """Something that took the place of something else while training ran.

    Attributes:
        epoch: In which, from 1.
        batches: Mini-batches of the epoch that were trained before it.
        reason: What was measured, for people.
        before_s: Seconds per mini-batch before; None where nothing was measured.
        after_s: Likewise after; None while nothing was measured.
    """

    epoch: int = 0
    batches: int = 0
    reason: str = ""
    before_s: float | None = None
    after_s: float | None = None

    @property
    @abstractmethod
    def what(self) -> str:
        """What changed, for people."""

    @abstractmethod
    def takes_back(self, other: Change) -> bool:
        """Returns whether this is as it was before `other`."""

    @property
    def line(self) -> str:
        """What changed, and why, for people."""
        return f"adapt: epoch {self.epoch}, mini-batch {self.batches}: {self.what}: {self.reason}"

    @property
    def gain(self) -> str:
        """What was measured before and after, for people."""
        assert self.before_s is not None, "something was measured before"
        assert self.after_s is not None, "something was measured after"
        return (
            f"adapt: the change at epoch {self.epoch}, mini-batch {self.batches}: {shown(self.before_s)} per "
            f"mini-batch before, {shown(self.after_s)} after ({self.before_s / self.after_s:.2f} x as fast)"
        )

    @property
    def slower(self) -> float:
        """By what share mini-batches took longer after it; 0 where that is not known."""
        return 0.0 if self.after_s is None or self.before_s is None else self.after_s / self.before_s - 1


class Recorded(ABC, Generic[Adjusted]):
    """Lets a controller change how mini-batches to come are worked on, by what was measured of those that were trained.

    Args:
        controller: Who decides.
        start: What holds at first.

    Attributes:
        changes: What was changed, of the whole run.
        lines: The same since this object was made, for people, with what was gained as soon as that is measured.
    """

    def __init__(self, controller: Adjusts[Adjusted], start: Adjusted) -> None:
        self._controller = controller
        self._place = 1, 0
        self.changes: list[Any] = []
        self.lines: list[str] = []
        self._begin(start)

    def _begin(self, start: Adjusted) -> None:
        self._managed = Managed(self, start, None, skipped=self._skipped)
        self._first: list[StageTimes] = []
        self._last: list[StageTimes] = []

    @property
    def current(self) -> Adjusted:
        """What holds for mini-batches to come."""
        return self._managed.current

    @abstractmethod
    def _skipped(self, current: Adjusted) -> int:
        """Returns how many mini-batches fill the pipeline, and are not counted."""

    @abstractmethod
    def _changed(self, before: Adjusted, now: Adjusted) -> Change:
        """Returns the record of a change, which has no place, reason or times yet."""

    @abstractmethod
    def _sought(self, before: Adjusted, mean: StageTimes) -> str:
        """Returns why the controller changed something though no stage drifted, for people."""

    def _allowed(self, before: Adjusted, wanted: Adjusted) -> Adjusted:
        """Returns what takes the place of `before` where the controller asks for `wanted`."""
        return wanted

    def _stage(self, drift: Drift) -> str:
        """Returns which stage drifted, for people."""
        return drift.stage

    def drained(self) -> None:
        """Is told that the pipeline is empty, at the begin of an epoch."""
        self._managed.drained()

    def adjust(self, assignment: Adjusted, times: StageTimes) -> Adjusted:
        """Has the controller decide by the mean of a few mini-batches, and keeps what is to be told of it."""
        self._first = [*self._first, times][:_TOLD]
        self._last = [*self._last, times][-_TOLD:]
        adjusted = self._allowed(assignment, self._controller.adjust(assignment, times))
        if adjusted != assignment or len(self._first) == _TOLD:
            self._measured()
        if adjusted != assignment:
            self._record(assignment, adjusted, self._reason(assignment, adjusted))
        return adjusted

    def change(self, now: Adjusted, reason: str) -> None:
        """Goes on with `now`, for a reason that the controller does not know; what it had begun to try is over."""
        before = self.current
        if now != before:
            if self._first:
                self._measured()
            self._record(before, now, reason)
            self._managed.change(now)

    def _measured(self) -> None:
        """Tells what the latest change has gained, by what was measured since."""
        latest: Change | None = self.changes[-1] if self.changes else None
        if latest is not None and latest.after_s is None:
            latest.after_s = _mean(self._first)
            if latest.before_s is not None:
                self.lines.append(latest.gain)

    def _record(self, before: Adjusted, now: Adjusted, reason: str) -> None:
        made = self._changed(before, now)
        made.epoch, made.batches = self._place
        made.reason, made.before_s = reason, _mean(self._last) if self._last else None
        self.changes.append(made)
        self.lines.append(made.line)
        self._first, self._last = [], []

    def _reason(self, before: Adjusted, now: Adjusted) -> str:
        """Returns what drifted since `before` was new; or, where nothing did, what was sought."""
        latest: Change | None = self.changes[-1] if self.changes else None
        tried = self._changed(before, now)
        if latest is not None and tried.takes_back(latest) and latest.slower > -LEAST_GAIN:
            word = "more" if latest.slower > 0 else "less"
            return f"back again, for a mini-batch took {abs(latest.slower):.0%} {word} than before"
        mean = StageTimes.mean(self._last)
        drifted = drifts(StageTimes.mean(self._first), mean)
        if not drifted:
            return self._sought(before, mean)
        return f"{self._stage(drifted[0])} takes {shown(drifted[0].now_s)}, and took {shown(drifted[0].before_s)}"

    def _told_changes(self) -> list[dict[str, Any]]:
        return list(map(dataclasses.asdict, self.changes))


def _mean(times: Sequence[StageTimes]) -> float:
    return statistics.fmean(map(iteration_of, times))
