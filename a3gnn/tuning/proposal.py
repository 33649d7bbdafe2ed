"""`Proposal`: a configuration that is worth a trial."""

from __future__ import annotations

from dataclasses import dataclass

from a3gnn.config import TrainConfig


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to measure next.

    Attributes:
        reason: Why: default, best, front, closest, smallest.
        config: The configuration.
    """

    reason: str
    config: TrainConfig

    @property
    def for_priority(self) -> bool:
        """Whether it is there to be the best by the priority, not to find out about the rest of the front."""
        return self.reason == "best"
