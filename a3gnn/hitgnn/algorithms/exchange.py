"""`Exchange`: what ranks send each other while they compute, where an algorithm asks for more than gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from a3gnn.features.stores.store import FeatureStore
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.models.adam import Optimizer
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.model import Model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.group import TorchRanks
from a3gnn.training.built_in import BuiltIn


class Exchanged(NamedTuple):
    """Counts since the exchange was made, or of a mini-batch.

    Attributes:
        rows: Rows of features that were read, of this rank's mini-batches and of others'.
        activation_bytes: Bytes of partial sums and of their gradients that the rank gave and took.
        structure_bytes: Bytes of node ids and edges, likewise.
    """

    rows: int = 0
    activation_bytes: int = 0
    structure_bytes: int = 0


class Exchange(Protocol):
    """Computes the logits of a rank's mini-batch together with the other ranks; all of them make the same calls."""

    @property
    def exchanged(self) -> Exchanged:
        """What was exchanged so far."""

    def logits(self, batch: MiniBatch, blocks: list[LayerBlock], seed: int) -> Tensor:
        """Returns the logits of the seeds of `batch`, shape (num_seeds, num_classes).

        Args:
            batch: This rank's; where it is idle, a stand-in at weight 0.
            blocks: Of all layers, input layer first.
            seed: Decides what is dropped.

        Raises:
            PeerLostError: Another rank has ended, or doesn't answer.
        """

    @property
    def own_weights(self) -> list[nn.Parameter]:
        """Weights of the learner's model that no other rank trains: once `backward` is done, they have all gradients.

        Those of all other weights are this rank's part, which are summed.
        """

    @property
    def whole(self) -> Model:
        """The whole model, as of the last `gather`, which is evaluated and saved.

        A state dict that is loaded into it is what the ranks train from then on; all of them load the same.
        """

    def optimizer(self, inner: Optimizer) -> Optimizer:
        """Returns `inner`, which updates the weights of the learner's model, with a state that is the whole model's.

        That is saved; it is as of the last `gather`.
        """

    def gather(self) -> None:
        """Has `whole`, and the optimiser's state, be those of now; every rank calls it."""


#: Takes the rank's learner, all ranks, what this rank stores, and its features; returns the exchange. No rank may wait
#: for another one in it.
ExchangeMaker = Callable[[BuiltIn, TorchRanks, Stored, FeatureStore], Exchange]
