"""`Peers`: those who train shares of the same mini-batches, each with a copy of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor

from a3gnn.pipeline.divided import Dividing
from a3gnn.sampling.share import Shares


class Peers(Protocol):
    """What a trainer asks of the others; all of them make the same calls, in the same order."""

    def sum(self, values: Tensor) -> None:
        """Overwrites `values`, of one shape, dtype and kind of device everywhere, by their sum over all peers.

        Every peer gets the same bits.

        Raises:
            PeerLostError: A peer has ended, or doesn't answer.
        """


@dataclass(frozen=True, slots=True)
class Member:
    """One of those who train together.

    Attributes:
        shares: Which share of each mini-batch it trains; or how each is divided among all trainers of this process, of
            which it is the first.
        peers: All of them, this one included.
        ranks: Among whom evaluation is shared out; None evaluates alone.
    """

    shares: Shares | Dividing
    peers: Peers
    ranks: Ranks | None = None


class Ranks(Peers, Protocol):
    """Peers in processes of their own; all of them make the same calls, in the same order."""

    @property
    def rank(self) -> int:
        """Which one this is, from 0: rank 0 writes files and speaks."""

    @property
    def size(self) -> int:
        """How many there are."""

    def broadcast(self, values: Tensor, source: int) -> None:
        """Overwrites `values`, on the host, by those of the rank `source`; as `sum` otherwise."""

    def swap(self, pieces: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Sends a piece to each rank, this one included, and returns what each has sent here, in the order of ranks.

        Args:
            pieces: One per rank, of one dimension, dtype and kind of device everywhere; may be empty.
            sizes: Entries that each rank sends here.

        Raises:
            PeerLostError: Another rank has ended, or doesn't answer.
        """

    def gathered(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the arrays of all ranks, in their order, on rank 0; nothing elsewhere.

        Args:
            values: Of one dtype and number of dimensions everywhere; lengths may differ in the first alone.
        """
