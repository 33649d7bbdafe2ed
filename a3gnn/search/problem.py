"""What is searched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.objectives import Limits, Priority, memory_metric, minimised
from a3gnn.prediction import Predict, Prediction
from a3gnn.space import SearchSpace
from a3gnn_envs.context import Context

#: Spaces of up to so many rows are predicted whole, once, and have an exhaustive front to compare with.
ENUMERABLE = 200_000


@dataclass(frozen=True)
class Problem:
    """One search: where, by which predictor, within which limits, and for whom.

    Attributes:
        space: The configurations.
        predict: Answers encoded rows with a `Prediction`.
        limits: What a configuration must keep to be feasible.
        priority: What is wanted of the feasible ones. Searchers look for the whole front, which holds every
            priority's best.
        has_device: Whether the memory objective is the device's.
        context: Graph and hardware in numbers, float32, shape (n_features,), as the policy was or will be trained on.
    """

    space: SearchSpace
    predict: Predict
    limits: Limits
    priority: Priority
    has_device: bool
    context: NDArray[np.float32]

    @property
    def enumerable(self) -> bool:
        """Whether the space is small enough to be predicted whole."""
        return self.space.size <= ENUMERABLE

    @cached_property
    def episode_context(self) -> Context:
        """The same as the environments see it."""
        features = np.asarray(self.context, dtype=np.float32)
        return Context(self.space, self.predict, self.limits, self.has_device, features)

    def costs(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the objectives as costs, float64, shape (n_configs, 3)."""
        return minimised(prediction, self.has_device)

    def score(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the priority's score of each configuration, float64, shape (n_configs,); larger is better."""
        return self.priority.score(
            prediction.column("throughput_epochs_per_s"),
            prediction.column(memory_metric(self.has_device)),
            prediction.column("test_accuracy"),
        )

    def order(self, prediction: Prediction) -> NDArray[np.int64]:
        """Returns the positions best first, int64, shape (n_configs,): the least violation, then the best score."""
        return np.lexsort((-self.score(prediction), self.limits.violation(prediction)))

    def keys(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns a number for each canonical row, distinct for distinct ones, int64, shape (n_configs,)."""
        return np.asarray(np.ravel_multi_index(tuple(rows.T), tuple(self.space.nvec)), dtype=np.int64)
