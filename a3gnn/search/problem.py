"""What is searched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from a3gnn.objectives import Objectives
from a3gnn.prediction import Predict
from a3gnn.space import SearchSpace
from a3gnn_envs.context import Context

#: Spaces of up to this many configurations are predicted whole, once, and have an exhaustive front to compare with.
#: That takes 2 s of the 10 that a search may take: on 2 cores the surrogate predicts one in 9 microseconds.
ENUMERABLE = 200_000


@dataclass(frozen=True)
class Problem:
    """One search: where, by which predictor, and for what.

    Attributes:
        space: The configurations.
        predict: Answers encoded rows with a `Prediction`.
        objectives: The limits and the priority. Searchers look for the whole front, which has the best configuration
            of every priority.
    """

    space: SearchSpace
    predict: Predict
    objectives: Objectives

    @property
    def enumerable(self) -> bool:
        """Whether the space is small enough to be predicted whole."""
        return self.space.num_distinct <= ENUMERABLE

    @cached_property
    def episode_context(self) -> Context:
        """The same as the environments see it."""
        wanted = self.objectives
        return Context(self.space, self.predict, wanted.limits, wanted.has_device, speed=wanted.speed)

    def keys(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns a number for each canonical row, distinct for distinct ones, int64, shape (n_configs,)."""
        return np.asarray(np.ravel_multi_index(tuple(rows.T), tuple(self.space.nvec)), dtype=np.int64)
