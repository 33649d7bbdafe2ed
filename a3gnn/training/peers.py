"""`Peers`: those who train shares of the same mini-batches, each with a copy of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from a3gnn.runtime.divided import Dividing
from a3gnn.sampling.share import Shares

if TYPE_CHECKING:
    from a3gnn.training.ranks.protocol import Ranks


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
