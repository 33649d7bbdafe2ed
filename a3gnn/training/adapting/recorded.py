"""`Recorded`: runs a controller in a real training run, and records its changes, reasons and gains."""

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
#: Measurements whose mean is reported. Guess.
_TOLD = 3


class ControlStep(NamedTuple, Generic[Adjusted]):
    """One step of a controller: the division, and the means of its measured times."""

    assignment: Adjusted
    times: StageTimes


class Managed(Generic[Adjusted]):
    """Lets a controller divide mini-batches, for a number of steps.

    A new division takes effect once the pipeline has drained. Mini-batches of the old one are not counted, nor are the
    first ones of the new one, which ran together with them.

    Args:
        controller: Chooses the division.
        start: The first division.
        iterations: Steps of the controller; None for no limit, without history.
        measured: Mini-batches per step; the controller gets the means of their times.
        skipped: First mini-batches of a division that are not counted: the pipeline's capacity, as a number or as a
            function of the division.

    Attributes:
        history: The division of each step, and its mean times.
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
        """Notes that the pipeline is empty and fills anew, so that the next mini-batches do not count."""
        self._seen = 0

    def measured(self, assignment: Adjusted, times: StageTimes) -> None:
        """Adds `times`, and calls the controller once there are enough."""
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
        """Continues with `adjusted`; if it is new, earlier measurements no longer count."""
        if adjusted != self.current:
            self.current, self._seen, self._times = adjusted, 0, []


@dataclass(slots=True, kw_only=True)
class Change(ABC):
    """A change during training.

    Attributes:
        epoch: The epoch, from 1.
        batches: Mini-batches of the epoch that were trained before the change.
        reason: The reason for messages.
        before_s: Seconds per mini-batch before; None if nothing was measured.
        after_s: Seconds per mini-batch after; None until it is measured.
    """

    epoch: int = 0
    batches: int = 0
    reason: str = ""
    before_s: float | None = None
    after_s: float | None = None

    @property
    @abstractmethod
    def what(self) -> str:
        """A description of the change for messages."""

    @abstractmethod
    def takes_back(self, other: Change) -> bool:
        """Returns whether this change restores the state before `other`."""

    @property
    def line(self) -> str:
        """A message with the change and its reason."""
        return f"adapt: epoch {self.epoch}, mini-batch {self.batches}: {self.what}: {self.reason}"

    @property
    def gain(self) -> str:
        """A message with the seconds before and after."""
        assert self.before_s is not None, "something was measured before"
        assert self.after_s is not None, "something was measured after"
        return (
            f"adapt: the change at epoch {self.epoch}, mini-batch {self.batches}: {shown(self.before_s)} per "
            f"mini-batch before, {shown(self.after_s)} after ({self.before_s / self.after_s:.2f} x as fast)"
        )

    @property
    def slower(self) -> float:
        """Relative increase of seconds per mini-batch by the change; 0 if unknown."""
        return 0.0 if self.after_s is None or self.before_s is None else self.after_s / self.before_s - 1


class Recorded(ABC, Generic[Adjusted]):
    """Lets a controller change how future mini-batches are processed, by measurements of trained ones.

    Args:
        controller: Chooses what applies to future mini-batches.
        start: Applies at first.

    Attributes:
        changes: The changes of the whole run.
        lines: A message per change since this object was made, and its gain once that is measured.
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
        """The value that applies to future mini-batches."""
        return self._managed.current

    @abstractmethod
    def _skipped(self, current: Adjusted) -> int:
        """Returns how many mini-batches fill the pipeline; these are not counted."""

    @abstractmethod
    def _changed(self, before: Adjusted, now: Adjusted) -> Change:
        """Returns the record of a change, without its place, reason and times."""

    @abstractmethod
    def _sought(self, before: Adjusted, mean: StageTimes) -> str:
        """Returns a message on why the controller changed something although no stage drifted."""

    def _allowed(self, before: Adjusted, wanted: Adjusted) -> Adjusted:
        """Returns the value that replaces `before` if the controller requests `wanted`."""
        return wanted

    def _stage(self, drift: Drift) -> str:
        """Returns the drifted stage's name for messages."""
        return drift.stage

    def drained(self) -> None:
        """Notes that the pipeline is empty, at the beginning of an epoch."""
        self._managed.drained()

    def adjust(self, assignment: Adjusted, times: StageTimes) -> Adjusted:
        """Calls the controller with the means over a few mini-batches, and records the change."""
        self._first = [*self._first, times][:_TOLD]
        self._last = [*self._last, times][-_TOLD:]
        adjusted = self._allowed(assignment, self._controller.adjust(assignment, times))
        if adjusted != assignment or len(self._first) == _TOLD:
            self._measured()
        if adjusted != assignment:
            self._record(assignment, adjusted, self._reason(assignment, adjusted))
        return adjusted

    def change(self, now: Adjusted, reason: str) -> None:
        """Continues with `now`, for a reason that the controller does not know; this ends the controller's trial."""
        before = self.current
        if now != before:
            if self._first:
                self._measured()
            self._record(before, now, reason)
            self._managed.change(now)

    def _measured(self) -> None:
        """Adds a message about the latest change's gain, from the measurements since."""
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
        """Returns the reason: a change that is undone, the largest drift since `before` was new, or the goal."""
        latest: Change | None = self.changes[-1] if self.changes else None
        tried = self._changed(before, now)
        if latest is not None and tried.takes_back(latest) and latest.slower > -LEAST_GAIN:
            word = "more" if latest.slower > 0 else "less"
            return f"undone, because a mini-batch took {abs(latest.slower):.0%} {word} time than before"
        mean = StageTimes.mean(self._last)
        drifted = drifts(StageTimes.mean(self._first), mean)
        if not drifted:
            return self._sought(before, mean)
        worst = drifted[0]
        return f"{self._stage(worst)} takes {shown(worst.now_s)} now and took {shown(worst.before_s)} before"

    def _told_changes(self) -> list[dict[str, Any]]:
        return list(map(dataclasses.asdict, self.changes))


def _mean(times: Sequence[StageTimes]) -> float:
    return statistics.fmean(map(iteration_of, times))
