"""`Managed`: lets a controller divide mini-batches by the mean of a few measurements."""

from __future__ import annotations

from typing import NamedTuple

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.controller import Controller
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
