"""`Peers` and `Ranks`: interfaces of trainers of shares of the same mini-batches, each with a copy of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor

from a3gnn.pipeline.divided import Dividing
from a3gnn.sampling.share import Shares


class Peers(Protocol):
    """A trainer's interface to the others; all trainers make the same calls, in the same order."""

    def sum(self, values: Tensor) -> None:
        """Overwrites `values` by their sum over all peers; every peer gets the same bits.

        Args:
            values: Of the same shape, dtype and device type on every peer.

        Raises:
            PeerLostError: A peer has ended, or doesn't answer.
        """


@dataclass(frozen=True, slots=True)
class Member:
    """One of several trainers that train together.

    Attributes:
        shares: Its share of each mini-batch. For the first of several trainers of this process: how each mini-batch is
            divided among them.
        peers: All trainers, including this one.
        ranks: The ranks that share evaluation; None evaluates alone.
    """

    shares: Shares | Dividing
    peers: Peers
    ranks: Ranks | None = None


class Ranks(Peers, Protocol):
    """Peers in separate processes; all of them make the same calls, in the same order."""

    @property
    def rank(self) -> int:
        """This process's rank, from 0; rank 0 writes files and prints."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def broadcast(self, values: Tensor, source: int) -> None:
        """Overwrites `values`, on the host, by the `values` of the rank `source`; arguments and errors as in `sum`."""

    def swap(self, pieces: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Sends a piece to each rank, including this one, and returns the pieces from each rank, in their order.

        Args:
            pieces: One per rank, of one dimension, with the same dtype and device type everywhere; may be empty.
            sizes: Entries that this rank receives from each rank.

        Raises:
            PeerLostError: Another rank has ended, or doesn't answer.
        """

    def gathered(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the arrays of all ranks, in their order, on rank 0; an empty list elsewhere.

        Args:
            values: Of the same dtype and shape everywhere, except for the length of the first dimension.
        """
