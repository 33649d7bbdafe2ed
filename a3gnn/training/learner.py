"""`Learner`, the interface between trainer and model; `Replica`, its training step; and `LearningRate`."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError
from a3gnn.features.row_table import Aggregator
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.models.adam import Optimizer
from a3gnn.models.loss import LESS_STEEP
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.joined_step import JoinedStep
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.task import ScheduleName, Task

#: Minimum number of mini-batches of a warm-up, because epochs may have very few
#: (docs/design/tuning.md).
_LEAST_WARM_UP = 20


class Learner(Protocol):
    """A model with its loss, optimizer and evaluation: a built-in one (`BuiltIn`), or a user's (`Own`)."""

    @property
    def model(self) -> nn.Module:
        """The model, on its device."""

    @property
    def aggregator(self) -> Aggregator | None:
        """The aggregator to apply to mini-batches' `x`; None for unchanged rows."""

    @property
    def rows(self) -> DenseFeatures | SparseFeatures | None:
        """The table from which mini-batches' `x` are read; None to read features."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of mini-batches' dense `x`."""

    @property
    def edge_values(self) -> tuple[str, ...]:
        """The names of the graph's values of edges that the model reads."""

    @property
    def evaluation(self) -> str:
        """Which neighbors the evaluation uses, as text for people."""

    def restart(self) -> None:
        """Resets the model to its initial weights, which the seed decides."""

    def fresh_optimizer(self) -> Optimizer:
        """Returns an optimizer with an empty state."""

    def set_rate(self, optimizer: Optimizer, rate: float, batch: int, batches_per_epoch: int) -> None:
        """Sets the step size of `optimizer` for one mini-batch.

        Args:
            optimizer: A result of `fresh_optimizer`.
            rate: The step size by task and configuration.
            batch: Number of the mini-batch, counted over all epochs.
            batches_per_epoch: Mini-batches per epoch.
        """

    def loss(self, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the seeds; randomness depends only on the seed and the mini-batch."""

    def cost(self, subgraph: Subgraph) -> float:
        """Returns the cost of training on `subgraph` in bytes moved, computed from shapes alone."""

    @property
    def validation_cost(self) -> float:
        """The cost of `validate` in bytes moved, computed from shapes alone."""

    def validate(self) -> float:
        """Returns the quality on validation nodes by the task's metric (`a3gnn.metric`)."""

    def test(self) -> float:
        """Returns the quality on test nodes by the task's metric."""

    def check(self) -> None:
        """Raises a `ModelError` if the model depends on files that keys do not cover."""


class Replica:
    """A model and its optimizer, trained on mini-batches, or on shares of them.

    Args:
        learner: The model, with its loss.
        rates: The step size at each mini-batch.
        batches_per_epoch: Mini-batches per epoch.
        joined: Exchanges gradients with the peers that train other shares; None without peers.

    Attributes:
        optimizer: Adam, or the optimizer that a user's model makes.
    """

    def __init__(
        self, learner: Learner, rates: LearningRate, batches_per_epoch: int, joined: JoinedStep | None = None
    ) -> None:
        self.learner, self.joined = learner, joined
        self._rates, self._batches_per_epoch = rates, batches_per_epoch
        self.optimizer = learner.fresh_optimizer()

    def gradients(self, batch: MiniBatch) -> Tensor:
        """Returns the mean loss of the whole mini-batch, and sets the gradients of the weights.

        Raises:
            PeerLostError: A peer that trains another share has ended, or doesn't answer.
        """
        self.optimizer.zero_grad(set_to_none=True)
        if self.joined is not None:
            return self.joined.gradients(batch, self.learner.loss)
        loss = self.learner.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def propagate(self, batch: MiniBatch) -> Tensor:
        """Returns a share's part of the loss, and sets its gradients, which are not summed over shares yet."""
        assert self.joined is not None, "there are shares"
        self.optimizer.zero_grad(set_to_none=True)
        return self.joined.propagate(batch, self.learner.loss)

    def update(self, batch: MiniBatch) -> None:
        """Runs the optimizer's step for `batch`, or for the mini-batch that `batch` is a share of."""
        number = batch.epoch * self._batches_per_epoch + batch.index
        self.learner.set_rate(self.optimizer, self._rates.at(number), number, self._batches_per_epoch)
        self.optimizer.step()
        if self.joined is not None:
            self.joined.finish()

    def copy_from(self, other: Replica) -> None:
        """Copies the weights and the optimizer's state of `other`, which may be on another device."""
        self.learner.model.load_state_dict(other.learner.model.state_dict())
        # torch's Adam keeps references to the tensors of the loaded state, so it gets a copy.
        self.optimizer.load_state_dict(copy.deepcopy(other.optimizer.state_dict()))


@dataclass(frozen=True, slots=True)
class LearningRate:
    """The task's learning rate times `learning_rate_scale`, with its schedule, and a warm-up if the scale exceeds 1.

    The warm-up begins at the task's own rate (gradual warm-up: Goyal et al., "Accurate, Large Minibatch SGD", 2017,
    section 2.2). It takes one epoch, but at least 20 mini-batches. It does not take a share of the budget, because the
    result must depend on the learning key and not on the length of training. For the same reason, the task sets the
    number of epochs over which a schedule falls to 0, where it stays. The schedule is linear, or half a cosine
    (Loshchilov and Hutter, "SGDR", 2017, equation 5, without restarts).

    The rate is computed from the mini-batch's number, so there is no state to save. An extended learning curve equals
    the curve of one longer training.
    """

    start: float  # rate before the first mini-batch
    rate: float  # rate after the warm-up, before the schedule is applied
    warm_up: int  # mini-batches of the warm-up; 0 for none
    schedule: ScheduleName = "constant"  # how the rate falls
    horizon: int = 0  # mini-batches after which the rate is 0; 0 for a constant rate

    @classmethod
    def of(cls, task: Task, config: TrainConfig, batches_per_epoch: int) -> Self:
        """Returns the learning rate of `task` and `config` for epochs of `batches_per_epoch` mini-batches."""
        rate, falls = task.learning_rate * config.learning_rate_scale, (task.lr_schedule, 0)
        if task.lr_epochs is not None:
            falls = task.lr_schedule, task.lr_epochs * batches_per_epoch
        if config.learning_rate_scale <= 1:
            return cls(rate, rate, 0, *falls)
        return cls(task.learning_rate, rate, max(batches_per_epoch, _LEAST_WARM_UP), *falls)

    def at(self, batch: int) -> float:
        """Returns the rate for mini-batch `batch`, counted from 0 over all epochs."""
        if batch >= self.warm_up:
            return self.rate * self._factor(batch)
        return (self.start + (self.rate - self.start) * (batch + 1) / self.warm_up) * self._factor(batch)

    def _factor(self, batch: int) -> float:
        """Returns the schedule's factor for a mini-batch, in [0, 1]."""
        if self.schedule == "constant":
            return 1.0
        share = min(batch / self.horizon, 1.0)
        return 1.0 - share if self.schedule == "linear" else (1.0 + math.cos(math.pi * share)) / 2


def checked_loss(loss: float, batch: MiniBatch) -> float:
    """Returns the `loss` of `batch` if it is finite.

    Raises:
        A3GNNError: It is not finite.
    """
    if not math.isfinite(loss):
        raise A3GNNError(
            f"the loss must be finite, got {loss} at mini-batch {batch.index} of epoch {batch.epoch + 1}; {LESS_STEEP}"
        )
    return loss
