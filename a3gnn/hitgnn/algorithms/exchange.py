"""`Exchange`: the data that ranks exchange while they compute, if an algorithm needs more than gradients."""

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
        rows: Rows of features read, for this rank's mini-batches and for others'.
        activation_bytes: Bytes of partial sums and of their gradients that the rank sent and received.
        structure_bytes: Bytes of node ids and edges that the rank sent and received.
    """

    rows: int = 0
    activation_bytes: int = 0
    structure_bytes: int = 0


class Exchange(Protocol):
    """Computes the logits of a rank's mini-batch together with the other ranks; all of them make the same calls."""

    @property
    def exchanged(self) -> Exchanged:
        """The traffic so far."""

    def logits(self, batch: MiniBatch, blocks: list[LayerBlock], seed: int) -> Tensor:
        """Returns the logits of the seeds of `batch`, shape (num_seeds, num_classes).

        Args:
            batch: This rank's mini-batch; a stand-in of weight 0 if the rank is idle.
            blocks: Blocks of all layers, input layer first.
            seed: Decides dropout.

        Raises:
            PeerLostError: Another rank has ended, or does not answer.
        """

    @property
    def own_weights(self) -> list[nn.Parameter]:
        """Weights of the learner's model that only this rank trains; their gradients are complete after `backward`.

        The gradients of all other weights are partial, and are summed over ranks.
        """

    @property
    def whole(self) -> Model:
        """The whole model as of the last `gather`, for evaluation and saving.

        Ranks continue training with a state dict loaded into it; all of them must load the same.
        """

    def optimizer(self, inner: Optimizer) -> Optimizer:
        """Wraps `inner`, which updates the weights of the learner's model, so that its state is the whole model's.

        The state is as of the last `gather`, and is saved in checkpoints.
        """

    def gather(self) -> None:
        """Updates `whole` and the optimizer's state; every rank calls it."""


#: Takes the rank's learner, all ranks, the rank's `Stored`, and its features; returns the exchange. It must not wait
#: for other ranks.
ExchangeMaker = Callable[[BuiltIn, TorchRanks, Stored, FeatureStore], Exchange]
