"""`Adaptation`: runs a controller in a real training run, and records its changes, reasons and gains."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.controller import Controller
from a3gnn.hybrid.control.drift import LEAST_GAIN, MEASURED, Drift, drifts, iteration_of, shown
from a3gnn.hybrid.stage_times import StageTimes


class ControlStep(NamedTuple):
    """One step of a controller: the division, and the means of its measured times."""

    assignment: Assignment
    times: StageTimes


class Managed:
    """Lets a controller divide mini-batches, for a number of steps.

    A new division takes effect once the pipeline has drained. Mini-batches of the old one are not counted, nor are the
    first ones of the new one, which ran together with them.

    Args:
        controller: Chooses the division.
        start: The first division.
        iterations: Steps of the controller; None for no limit, without history.
        measured: Mini-batches per step; the controller gets the means of their times.
        skipped: First mini-batches of a division that are not counted: the pipeline's capacity.

    Attributes:
        history: The division of each step, and its mean times.
        current: The division after the last step.
    """

    def __init__(
        self,
        controller: Controller,
        start: Assignment,
        iterations: int | None = 20,
        measured: int = 4,
        skipped: int = 4,
    ) -> None:
        self._controller, self._iterations = controller, iterations
        self._wanted, self._skipped = measured, skipped
        self._seen = 0
        self._times: list[StageTimes] = []
        self.current = start
        self.history: list[ControlStep] = []

    def assignment(self) -> Assignment | None:
        """Returns the current division, or None after the last step."""
        return None if self._has_ended else self.current

    @property
    def _has_ended(self) -> bool:
        return self._iterations is not None and len(self.history) >= self._iterations

    def drained(self) -> None:
        """Notes that the pipeline is empty and fills anew, so that the next mini-batches do not count."""
        self._seen = 0

    def measured(self, assignment: Assignment, times: StageTimes) -> None:
        """Adds `times`, and calls the controller once there are enough."""
        if assignment is not self.current or self._has_ended:
            return
        self._seen += 1
        if self._seen <= self._skipped:
            return
        self._times.append(times)
        if len(self._times) < self._wanted:
            return
        mean = StageTimes.mean(self._times)
        if self._iterations is not None:
            self.history.append(ControlStep(assignment, mean))
        self._times = []
        adjusted = self._controller.adjust(assignment, mean)
        if adjusted != self.current:
            self.current, self._seen, self._times = adjusted, 0, []


#: Fields of a division that change, and that a checkpoint keeps.
_KEPT = "shares", "weights", "trainer_threads"


@dataclass(slots=True, kw_only=True)
class DivisionChange:
    """A division that replaced another one."""

    epoch: int  # the epoch, from 1
    batches: int  # mini-batches of the epoch that were trained before the change
    reason: str = ""  # the reason for messages
    before_s: float  # seconds per mini-batch before
    after_s: float | None = None  # seconds per mini-batch after; None until it is measured
    shares: list[int]  # seeds of each trainer
    threads: list[int]  # the host's threads of each trainer
    shares_before: list[int]  # seeds of each trainer before
    threads_before: list[int]  # the host's threads of each trainer before

    @property
    def line(self) -> str:
        """A message with the change and its reason."""
        pairs = (("shares", self.shares_before, self.shares), ("threads", self.threads_before, self.threads))
        what = "; ".join(f"{name} {_listed(was)} -> {_listed(now)}" for name, was, now in pairs if was != now)
        return f"adapt: epoch {self.epoch}, mini-batch {self.batches}: {what}: {self.reason}"

    @property
    def gain(self) -> str:
        """A message with the seconds before and after."""
        assert self.after_s is not None, "something was measured after"
        return (
            f"adapt: the change at epoch {self.epoch}, mini-batch {self.batches}: {shown(self.before_s)} per "
            f"mini-batch before, {shown(self.after_s)} after ({self.before_s / self.after_s:.2f} x as fast)"
        )

    @property
    def slower(self) -> float:
        """Relative increase of seconds per mini-batch by the change; 0 if unknown."""
        return 0.0 if self.after_s is None else self.after_s / self.before_s - 1


class Adaptation:
    """Lets a controller divide future mini-batches by the measured times of trained ones.

    Args:
        controller: Decides the division.
        start: The first division.
        names: Names of the trainers, for people.
        skipped: Mini-batches that fill the pipeline and do not count.

    Attributes:
        changes: The changes of the whole run.
        lines: A message per change since this object was made, and its gain once that is measured.
    """

    def __init__(self, controller: Controller, start: Assignment, names: Sequence[str], skipped: int) -> None:
        self._controller, self._names, self._skipped = controller, names, skipped
        self._place = 1, 0
        self.changes: list[DivisionChange] = []
        self.lines: list[str] = []
        self._begin(start)

    def _begin(self, start: Assignment) -> None:
        self._managed = Managed(self, start, None, skipped=self._skipped)
        self._first: list[StageTimes] = []
        self._last: list[StageTimes] = []

    @property
    def assignment(self) -> Assignment:
        """The division of future mini-batches."""
        return self._managed.current

    @property
    def told(self) -> dict[str, Any]:
        """The fields for a training's result: the trainers' threads now, and the changes."""
        changes = list(map(dataclasses.asdict, self.changes))
        return {"threads": list(self.assignment.trainer_threads), "changes": changes}

    def drained(self) -> None:
        """Notes that the pipeline is empty, at the beginning of an epoch."""
        self._managed.drained()

    def observe(self, epoch: int, batches: int, shares: Sequence[int], times: StageTimes) -> None:
        """Receives the times of a whole mini-batch.

        Args:
            epoch: Number of the epoch, from 1.
            batches: Mini-batches of the epoch trained so far.
            shares: Seeds that the trainers had.
            times: Measured stage times, with the iteration.
        """
        self._place = epoch, batches
        if tuple(shares) == self.assignment.shares:
            self._managed.measured(self.assignment, times)

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Calls the controller with the means over a few mini-batches, and records the change."""
        self._first = [*self._first, times][:MEASURED]
        self._last = [*self._last, times][-MEASURED:]
        adjusted = self._controller.adjust(assignment, times)
        if adjusted != assignment or len(self._first) == MEASURED:
            self._measured()
        if adjusted != assignment:
            self._record(assignment, adjusted)
        return adjusted

    def state_dict(self) -> dict[str, Any]:
        """Returns the division and the changes as plain values."""
        division = {name: list(getattr(self.assignment, name)) for name in _KEPT}
        return {"division": division, "changes": self.told["changes"]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with the division of `state`; the controller starts its measurements anew."""
        now = self.assignment
        shares, weights, threads = (tuple(state["division"][name]) for name in _KEPT)
        stages = dataclasses.replace(now.threads, training=sum(threads) or now.threads.training)
        changed = dataclasses.replace(now, shares=shares, weights=weights, trainer_threads=threads, threads=stages)
        self.changes = [DivisionChange(**change) for change in state["changes"]]
        self._begin(changed)

    def _measured(self) -> None:
        """Adds a message about the latest change's gain, from the measurements since."""
        latest = self.changes[-1] if self.changes else None
        if latest is not None and latest.after_s is None:
            latest.after_s = _mean(self._first)
            self.lines.append(latest.gain)

    def _record(self, before: Assignment, now: Assignment) -> None:
        epoch, batches = self._place
        change = DivisionChange(
            epoch=epoch,
            batches=batches,
            before_s=_mean(self._last),
            shares=list(now.shares),
            threads=list(now.trainer_threads),
            shares_before=list(before.shares),
            threads_before=list(before.trainer_threads),
        )
        change.reason = self._reason(before, change)
        self.changes.append(change)
        self.lines.append(change.line)
        self._first, self._last = [], []

    def _reason(self, before: Assignment, change: DivisionChange) -> str:
        """Returns the reason: a change that is undone, the largest drift since `before` was new, or the goal."""
        latest = self.changes[-1] if self.changes else None
        before_it = None if latest is None else (latest.shares_before, latest.threads_before)
        if latest is not None and (change.shares, change.threads) == before_it and latest.slower > -LEAST_GAIN:
            word = "more" if latest.slower > 0 else "less"
            return f"undone, because a mini-batch took {abs(latest.slower):.0%} {word} time than before"
        mean = StageTimes.mean(self._last)
        drifted = drifts(StageTimes.mean(self._first), mean)
        if drifted:
            worst = drifted[0]
            return f"{self._stage(worst)} takes {shown(worst.now_s)} now and took {shown(worst.before_s)} before"
        took = [
            f"{shown(seconds)} for {share} seeds in trainer {place} ({name})"
            for place, (name, share, seconds) in enumerate(zip(self._names, before.shares, mean.training, strict=True))
        ]
        return f"propagation takes {', '.join(took)}"

    def _stage(self, drift: Drift) -> str:
        """Returns the drifted stage's name, and its trainer's, for messages."""
        if drift.trainer is None:
            return drift.stage
        return f"{drift.stage} of trainer {drift.trainer} ({self._names[drift.trainer]})"


def _mean(times: Sequence[StageTimes]) -> float:
    return statistics.fmean(map(iteration_of, times))


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
