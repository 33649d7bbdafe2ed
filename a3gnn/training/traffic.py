"""`Traffic`: what one of several ranks read and sent while it trained by a synchronous algorithm."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts of one mini-batch, or sums over several.

    Attributes:
        batches: Mini-batches; an iteration in which the rank was idle has none.
        moved: Those of another rank's part (two-stage scheduling).
        seeds: Seeds.
        rows: Rows of features that it needed.
        hits: Those that its own device's memory had.
        host_bytes: Bytes of the others, as often as they passed between host memory and a device.
        gradient_bytes: Bytes of gradients that it gave and took.
        activation_bytes: Bytes of partial sums, and of their gradients, that it gave other ranks and took (P3).
        structure_bytes: Bytes of mini-batches' node ids and edges, likewise.
    """

    batches: int = 0
    moved: int = 0
    seeds: int = 0
    rows: int = 0
    hits: int = 0
    host_bytes: int = 0
    gradient_bytes: int = 0
    activation_bytes: int = 0
    structure_bytes: int = 0

    @property
    def beta(self) -> float:
        """Share of the rows that its own memory had, in [0, 1]; 1 of none (HitGNN, Eq. 7)."""
        return self.hits / self.rows if self.rows else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts and beta as JSON types."""
        return {**dataclasses.asdict(self), "beta": self.beta}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Traffic:
        """Returns the counts of `to_dict`."""
        return cls(**{name: value for name, value in fields.items() if name != "beta"})

    @classmethod
    def sum(cls, some: Sequence[Traffic]) -> Traffic:
        """Returns the sums of `some`."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: sum(getattr(one, name) for one in some) for name in names})


def by_rank(some: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the sums of each rank's counts over `some`, of which each holds those of every rank, as JSON types."""
    return [Traffic.sum([Traffic.from_dict(one) for one in rank]).to_dict() for rank in zip(*some, strict=True)]
