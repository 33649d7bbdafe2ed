"""`Managed`: a controller at work while training runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple

from a3gnn.training.hybrid.control.controller import Adjusted, Adjusts
from a3gnn.training.hybrid.stage_times import StageTimes

#: Mini-batches per step of a controller. Guess.
MEASURED = 4


class Iteration(NamedTuple, Generic[Adjusted]):
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
        self.history: list[Iteration[Adjusted]] = []

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
            self.history.append(Iteration(assignment, mean))
        self._times = []
        self.change(self._controller.adjust(assignment, mean))

    def change(self, adjusted: Adjusted) -> None:
        """Goes on with `adjusted`, whoever decided that; what was measured of another one counts no more."""
        if adjusted != self.current:
            self.current, self._seen, self._times = adjusted, 0, []
