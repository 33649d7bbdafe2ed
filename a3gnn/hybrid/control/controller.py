"""`Controller`: changes the division of work by measured times; and the bounds of its changes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from a3gnn.hybrid.assignment import Assignment
from a3gnn.training.adapting.stage_times import Adjusts


class ShareBounds(NamedTuple):
    """Bounds of a change.

    Attributes:
        accelerators: Most seeds of all accelerators together, by their memory.
        threads: Whether the host's threads may move from one stage to another.
    """

    accelerators: int
    threads: bool = True


class Controller(Adjusts[Assignment], Protocol):
    """Changes the division of work, of simulated and real trainers alike."""
