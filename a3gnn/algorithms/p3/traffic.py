"""`SplitTraffic`: the bytes that a rank sends to others and receives from them, by what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor


class Swapping(Protocol):
    """Ranks that send each other pieces; all of them make the same calls, in the same order."""

    @property
    def rank(self) -> int:
        """Which one this is, from 0."""

    @property
    def size(self) -> int:
        """How many there are."""

    def swap(self, pieces: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Sends a piece to each rank, and returns what each has sent here; see `a3gnn.training.ranks.protocol`."""


@dataclass(slots=True)
class Moved:
    """Bytes to and from other ranks.

    Attributes:
        sent: To others.
        received: From others.
    """

    sent: int = 0
    received: int = 0

    @property
    def nbytes(self) -> int:
        """Both."""
        return self.sent + self.received


@dataclass(slots=True)
class SplitTraffic:
    """What a rank has sent and received so far; what it keeps for itself is not counted.

    Attributes:
        structures: Node ids and edges of the input layers.
        activations: Partial products, forward.
        gradients: Gradients of their sums, backward.
    """

    structures: Moved = field(default_factory=Moved)
    activations: Moved = field(default_factory=Moved)
    gradients: Moved = field(default_factory=Moved)


def swap(ranks: Swapping, pieces: Sequence[Tensor], sizes: Sequence[int], moved: Moved) -> list[Tensor]:
    """Returns what `ranks.swap` does, and counts what leaves and enters this rank in `moved`."""
    received = ranks.swap(pieces, sizes)
    for rank, (piece, other) in enumerate(zip(pieces, received, strict=True)):
        if rank != ranks.rank:
            moved.sent += piece.nbytes
            moved.received += other.nbytes
    return received
