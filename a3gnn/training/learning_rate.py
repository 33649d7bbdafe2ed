"""`LearningRate`: Adam's step size at each mini-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from a3gnn.config import TrainConfig
from a3gnn.task import Task

#: Mini-batches that a warm-up takes at least: where an epoch has few, it would be none. Guess.
_LEAST_WARM_UP = 20


@dataclass(frozen=True, slots=True)
class LearningRate:
    """The task's learning rate times `learning_rate_scale`, reached by a linear warm-up where that is above 1.

    The warm-up begins at the task's own rate (gradual warm-up: Goyal et al., "Accurate, Large Minibatch SGD", 2017,
    section 2.2). It takes an epoch, or 20 mini-batches where that has fewer, and not a share of a budget, so that what
    is learnt depends on the learning key and not on how long it is trained; the rate is computed from the mini-batch's
    number, so that no state has to be kept.

    Attributes:
        start: Rate before the first mini-batch.
        rate: Rate from the end of the warm-up on.
        warm_up: Mini-batches that the warm-up takes; 0 for none.
    """

    start: float
    rate: float
    warm_up: int

    @classmethod
    def of(cls, task: Task, config: TrainConfig, batches_per_epoch: int) -> Self:
        """Returns the learning rate of a training whose epochs have so many mini-batches."""
        rate = task.learning_rate * config.learning_rate_scale
        if config.learning_rate_scale <= 1:
            return cls(rate, rate, 0)
        return cls(task.learning_rate, rate, max(batches_per_epoch, _LEAST_WARM_UP))

    def at(self, batch: int) -> float:
        """Returns the rate of the step on a mini-batch, counted from 0 over all epochs."""
        if batch >= self.warm_up:
            return self.rate
        return self.start + (self.rate - self.start) * (batch + 1) / self.warm_up
