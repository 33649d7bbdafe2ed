"""`Replica`: a model with its optimiser, as one trainer has them."""

from __future__ import annotations

import copy
import math

from torch import Tensor

from a3gnn.errors import A3GNNError
from a3gnn.runtime.batch import MiniBatch
from a3gnn.training.joined_step import JoinedStep
from a3gnn.training.learner import Learner
from a3gnn.training.learning_rate import LearningRate

#: The remedy where training diverges.
LESS_STEEP = "a smaller learning_rate or learning_rate_scale, or normalised features may help"


class Replica:
    """A model and its optimiser, trained by mini-batches, or by shares of them.

    Args:
        learner: The model, with its loss.
        rates: The step size at each mini-batch.
        batches_per_epoch: Mini-batches of an epoch.
        joined: Exchanges gradients with those who train the other shares; None where there are none.

    Attributes:
        learner: As given.
        joined: As given.
        optimizer: Adam, or what a model of the user's makes.
    """

    def __init__(
        self, learner: Learner, rates: LearningRate, batches_per_epoch: int, joined: JoinedStep | None = None
    ) -> None:
        self.learner, self.joined = learner, joined
        self._rates, self._batches_per_epoch = rates, batches_per_epoch
        self.optimizer = learner.fresh_optimizer()

    def gradients(self, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the whole mini-batch, and leaves its gradients in the weights.

        Raises:
            PeerLostError: Who trains another share has ended, or doesn't answer.
        """
        self.optimizer.zero_grad(set_to_none=True)
        if self.joined is not None:
            return self.joined.gradients(batch, self.learner.loss)
        loss = self.learner.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def propagate(self, batch: MiniBatch) -> Tensor:
        """Returns what a share adds to the loss, and leaves its gradients, yet to be summed, in the weights."""
        assert self.joined is not None, "there are shares"
        self.optimizer.zero_grad(set_to_none=True)
        return self.joined.propagate(batch, self.learner.loss)

    def update(self, batch: MiniBatch) -> None:
        """Makes the optimiser's step on `batch`, or on the one of which that is a share."""
        number = batch.epoch * self._batches_per_epoch + batch.index
        self.learner.set_rate(self.optimizer, self._rates.at(number), number, self._batches_per_epoch)
        self.optimizer.step()
        if self.joined is not None:
            self.joined.finish()

    def copy_from(self, other: Replica) -> None:
        """Takes over the weights and the optimiser's state of `other`, whose device may be another one."""
        self.learner.model.load_state_dict(other.learner.model.state_dict())
        # torch's Adam would keep tensors of the state that it is given.
        self.optimizer.load_state_dict(copy.deepcopy(other.optimizer.state_dict()))


def checked_loss(loss: float, batch: MiniBatch) -> float:
    """Returns `loss`, that of `batch`.

    Raises:
        A3GNNError: It is not finite.
    """
    if not math.isfinite(loss):
        raise A3GNNError(
            f"the loss must be finite, got {loss} at mini-batch {batch.index} of epoch {batch.epoch + 1}; {LESS_STEEP}"
        )
    return loss
