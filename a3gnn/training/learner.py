"""`Learner`: what the trainer asks of a model, whichever kind it is."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError
from a3gnn.features.rows.table import Aggregator
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.models.adam import Optimizer
from a3gnn.models.loss import LESS_STEEP
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.joined_step import JoinedStep
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.task import ScheduleName, Task

#: Mini-batches that a warm-up takes at least: where an epoch has few, it would be none. Guess.
_LEAST_WARM_UP = 20


@dataclass(frozen=True, slots=True)
class LearningRate:
    """The task's learning rate times `learning_rate_scale`, with a warm-up where that is above 1, and its schedule.

    The warm-up begins at the task's own rate (gradual warm-up: Goyal et al., "Accurate, Large Minibatch SGD", 2017,
    section 2.2). It takes an epoch, or 20 mini-batches where that has fewer, and not a share of a budget, so that what
    is learnt depends on the learning key and not on how long it is trained. For the same reason a schedule falls over
    epochs that the task says: linearly, or as half a cosine (Loshchilov and Hutter, "SGDR", 2017, equation 5, without
    restarts), to 0, where it stays. The rate is computed from the mini-batch's number: no state has to be kept, and a
    curve that is extended is that of a training at once.

    Attributes:
        start: Rate before the first mini-batch.
        rate: Rate from the end of the warm-up on, were it constant.
        warm_up: Mini-batches that the warm-up takes; 0 for none.
        schedule: How it falls.
        horizon: Mini-batches after which it is 0; 0 where it is constant.
    """

    start: float
    rate: float
    warm_up: int
    schedule: ScheduleName = "constant"
    horizon: int = 0

    @classmethod
    def of(cls, task: Task, config: TrainConfig, batches_per_epoch: int) -> Self:
        """Returns the learning rate of a training whose epochs have so many mini-batches."""
        rate, falls = task.learning_rate * config.learning_rate_scale, (task.lr_schedule, 0)
        if task.lr_epochs is not None:
            falls = task.lr_schedule, task.lr_epochs * batches_per_epoch
        if config.learning_rate_scale <= 1:
            return cls(rate, rate, 0, *falls)
        return cls(task.learning_rate, rate, max(batches_per_epoch, _LEAST_WARM_UP), *falls)

    def at(self, batch: int) -> float:
        """Returns the rate of the step on a mini-batch, counted from 0 over all epochs."""
        if batch >= self.warm_up:
            return self.rate * self._factor(batch)
        return (self.start + (self.rate - self.start) * (batch + 1) / self.warm_up) * self._factor(batch)

    def _factor(self, batch: int) -> float:
        """Returns what is left of the rate at a mini-batch, in [0, 1]."""
        if self.schedule == "constant":
            return 1.0
        share = min(batch / self.horizon, 1.0)
        return 1.0 - share if self.schedule == "linear" else (1.0 + math.cos(math.pi * share)) / 2


class Learner(Protocol):
    """A model with its loss, its optimiser and its evaluation: a built-in one (`BuiltIn`), or a user's (`Own`)."""

    @property
    def model(self) -> nn.Module:
        """The model, on its device."""

    @property
    def aggregator(self) -> Aggregator | None:
        """What mini-batches' `x` are to be passed through; None for rows as they are."""

    @property
    def rows(self) -> DenseFeatures | SparseFeatures | None:
        """The table that mini-batches' `x` are rows of; None for features."""

    @property
    def dtype(self) -> torch.dtype:
        """Of mini-batches' dense `x`."""

    @property
    def evaluation(self) -> str:
        """From what the quality is computed, for people."""

    def restart(self) -> None:
        """Gives the model the weights that the seed decides."""

    def fresh_optimizer(self) -> Optimizer:
        """Returns an optimiser without memory."""

    def set_rate(self, optimizer: Optimizer, rate: float, batch: int, batches_per_epoch: int) -> None:
        """Sets the step size for mini-batch `batch`, counted over all epochs, where task and configuration say `rate`.

        Args:
            optimizer: One that `fresh_optimizer` returned.
            rate: The step size.
            batch: The mini-batch.
            batches_per_epoch: Mini-batches of an epoch.
        """

    def loss(self, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the seeds; what is drawn for it is decided by the seed and the mini-batch alone."""

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph`, in bytes moved: by shapes alone."""

    @property
    def validation_cost(self) -> float:
        """The cost of `validate`, likewise."""

    def validate(self) -> float:
        """Returns the quality on validation nodes by the task's metric (`a3gnn.metric`)."""

    def test(self) -> float:
        """Returns the quality on test nodes, likewise."""

    def check(self) -> None:
        """Raises a `ModelError` where the model depends on files that no key knows of."""


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
