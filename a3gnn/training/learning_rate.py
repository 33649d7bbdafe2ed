"""`LearningRate`: Adam's step size at each mini-batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from a3gnn.config import TrainConfig
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
