"""Episodes in contexts: configurations of one shape of space, judged by predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn_envs.context import Context, scalarise
from a3gnn_envs.episodes import Episodes

#: Concentration of the Dirichlet distribution of an episode's weights: below 1, one objective tends to dominate. Guess.
PREFERENCE_CONCENTRATION = 0.7


class Evaluation(NamedTuple):
    """Predicted performance of one configuration per episode.

    Attributes:
        utilities: Utilities of speed, memory and accuracy, float64, shape (num_envs, 3).
        slack: Unused share of the tightest memory limit, float64, shape (num_envs,).
        score: `scalarise` of the utilities for the episode's weights and limits, float64, shape (num_envs,).
    """

    utilities: NDArray[np.float64]
    slack: NDArray[np.float64]
    score: NDArray[np.float64]


class ContextEpisodes(Episodes):
    """`num_envs` episodes, each in one of `contexts` with weights of its own.

    Attributes:
        weights: Weights of speed, memory and accuracy, float64, shape (num_envs, 3).

    Raises:
        UsageError: There are no contexts, or their spaces or features differ in shape.
    """

    action_space: spaces.MultiDiscrete

    def __init__(self, contexts: Sequence[Context], num_envs: int, weights: Sequence[float] | None = None) -> None:
        shapes = {(c.space.names, tuple(c.space.nvec.tolist()), c.features.shape) for c in contexts}
        if len(shapes) != 1:
            raise UsageError(
                f"contexts must have one shape of space and features, got {len(shapes)} shapes; "
                "train one policy per shape"
            )
        super().__init__(num_envs)
        self.contexts = list(contexts)
        self.weights = np.full((num_envs, 3), 1 / 3)
        self._fixed_weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self._context = np.zeros(num_envs, dtype=np.int64)

    @property
    def nvec(self) -> NDArray[np.int64]:
        """The number of values of each knob, int64, shape (n_knobs,)."""
        return self.contexts[0].space.nvec

    def reset(self, where: NDArray[np.bool_]) -> None:
        """Starts new episodes at `where`, bool, shape (num_envs,): draws their contexts and weights."""
        num_new = int(where.sum())
        self._context[where] = self.np_random.integers(len(self.contexts), size=num_new)
        drawn = self.np_random.dirichlet(np.full(3, PREFERENCE_CONCENTRATION), size=num_new)
        self.weights[where] = drawn if self._fixed_weights is None else self._fixed_weights

    def evaluate(self, rows: NDArray[np.int64]) -> Evaluation:
        """Returns the evaluation of `rows` (num_envs, n_knobs), each in its episode's context and for its weights."""
        utilities, slack, violation = np.empty((self.num_envs, 3)), np.empty(self.num_envs), np.empty(self.num_envs)
        for index in np.unique(self._context):
            context, at = self.contexts[index], self._context == index
            prediction = context.predict(context.space.canonical(rows[at]))
            utilities[at] = context.scale.utilities(prediction)
            slack[at] = context.slack(prediction)
            violation[at] = context.limits.violation(prediction)
        return Evaluation(utilities, slack, scalarise(utilities, self.weights, violation))
