"""`Traffic`: the bytes that a rank sends to others and receives from them, by what they are."""

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
        """Sends a piece to each rank, this one included, and returns what each has sent here, in the order of ranks.

        Args:
            pieces: One per rank, of one dimension, dtype and kind of device everywhere; may be empty.
            sizes: Entries that each rank sends here.

        Raises:
            PeerLostError: Another rank has ended, or doesn't answer.
        """


@dataclass(slots=True)
class Moved:
    """Bytes to and from other ranks.

    Attributes:
        sent: To others.
        received: From others.
    """

    sent: int = 0
    received: int = 0


@dataclass(slots=True)
class Traffic:
    """What a rank has sent and received so far; what it keeps for itself is not counted.

    Attributes:
        structures: Node ids and edges of the input layers.
        activations: Partial products, forward.
        gradients: Gradients of their sums, backward.
    """

    structures: Moved = field(default_factory=Moved)
    activations: Moved = field(default_factory=Moved)
    gradients: Moved = field(default_factory=Moved)

    @property
    def nbytes(self) -> int:
        """Bytes in all, both ways."""
        return sum(one.sent + one.received for one in (self.structures, self.activations, self.gradients))


def swap(ranks: Swapping, pieces: Sequence[Tensor], sizes: Sequence[int], moved: Moved) -> list[Tensor]:
    """Returns what `ranks.swap` does, and counts what leaves and enters this rank in `moved`."""
    received = ranks.swap(pieces, sizes)
    for rank, (piece, other) in enumerate(zip(pieces, received, strict=True)):
        if rank != ranks.rank:
            moved.sent += piece.nbytes
            moved.received += other.nbytes
    return received
