"""`Controller`: who changes the division of work by what was measured; and the paper's."""

from __future__ import annotations

from typing import Protocol

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.algorithm1 import balanced_seconds, decide
from a3gnn.hybrid.control.amounts import Bounds, apply
from a3gnn.training.adapting.stage_times import Adjusts, StageTimes

#: Share by which the bottleneck must take longer than the stage that is to help it. Guess, above the usual noise.
_HYSTERESIS = 0.05


class Controller(Adjusts[Assignment], Protocol):
    """Changes the division of work; simulated and real trainers have the same."""


class Algorithm1:
    """HyScale-GNN's dynamic resource management as printed, its misprint mended (`decide`).

    The paper does not say how much is moved: here as much as would make both stages equally long (`apply`).

    Args:
        bounds: Of shares.
        hysteresis: Share by which the bottleneck must take longer than the stage that is to help it.
    """

    def __init__(self, bounds: Bounds, hysteresis: float = _HYSTERESIS) -> None:
        self._bounds, self._hysteresis = bounds, hysteresis

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Returns the division after one action of Algorithm 1."""
        seconds = balanced_seconds(assignment, times)
        action = decide(seconds)
        if action is None or seconds[action.slow] <= (1 + self._hysteresis) * seconds[action.fast]:
            return assignment
        return apply(action, assignment, seconds[action.slow], seconds[action.fast], self._bounds)
