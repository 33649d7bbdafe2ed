"""`Ranks`: processes that train together, as training and evaluation see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray
from torch import Tensor

from a3gnn.training.peers import Peers


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
