"""`Proposal`: a configuration that is worth a trial."""

from __future__ import annotations

from dataclasses import dataclass

from a3gnn.config import TrainConfig


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to measure next.

    Attributes:
        reason: Why: default, best, front, uncertain, closest, neighbour, smallest.
        config: The configuration.
    """

    reason: str
    config: TrainConfig
