"""`Controller`: changes the division of work by measured times; and the bounds of its changes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.stage_times import StageTimes


class ShareBounds(NamedTuple):
    """Bounds of a change.

    Attributes:
        accelerators: Most seeds of all accelerators together, by their memory.
        threads: Whether the host's threads may move from one stage to another.
    """

    accelerators: int
    threads: bool = True


class Controller(Protocol):
    """Changes the division of work, of simulated and real trainers alike, by measured seconds."""

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Returns the division of future mini-batches; `assignment` itself for no change.

        Args:
            assignment: The measured division.
            times: Means over mini-batches with this division, in a pipeline without any others.
        """
