"""The one-shot contextual environment: observe graph, machine and preference, and choose a configuration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn.limits import Limits
from a3gnn.prediction import Predict
from a3gnn.space import SearchSpace
from a3gnn_envs.context import FEATURE_BOUND, NO_LIMITS, Context
from a3gnn_envs.context_episodes import ContextEpisodes
from a3gnn_envs.episodes import SingleEnv


class OneShotEpisodes(ContextEpisodes):
    """Episodes of `OneShotEnv`, batched."""

    def __init__(self, contexts: Sequence[Context], num_envs: int, weights: Sequence[float] | None = None) -> None:
        super().__init__(contexts, num_envs, weights)
        self._observed = np.stack([context.observation for context in self.contexts])
        low = np.append(np.full(self._observed.shape[1], -FEATURE_BOUND), np.zeros(3))
        high = np.append(np.full(self._observed.shape[1], FEATURE_BOUND), np.ones(3))
        self.observation_space = spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self.action_space = spaces.MultiDiscrete(self.nvec)

    def observe(self) -> NDArray[np.float32]:
        """Returns context and weights, float32, shape (num_envs, n_features + 5)."""
        return np.hstack([self._observed[self._context], self.weights.astype(np.float32)])

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Returns the scores of the configurations `actions`; every episode terminates."""
        return self.evaluate(actions).score.astype(np.float32), np.ones(self.num_envs, dtype=np.bool_)


class OneShotEnv(SingleEnv):
    """Choose the configuration that is best for a graph, a machine, a limit and three weights: a contextual bandit.

    ## Observation: `Box`, float32, shape (n_features + 5,)

    | index      | meaning                                                   | range     | unit          |
    |------------|-----------------------------------------------------------|-----------|---------------|
    | 0 .. F - 1 | graph and hardware features, as given (z-scored)          | [-10, 10] |               |
    | F          | log10 of the memory limit; the largest memory if unset    | [-10, 10] | log10(GB)     |
    | F + 1      | smallest memory of 128 random configurations over limit   | [-10, 10] | share         |
    | F + 2 .. 4 | weights of speed, memory and accuracy, which sum to 1     | [0, 1]    |               |

    ## Action: `MultiDiscrete(space.nvec)`
    One index per knob: a row of the search space.

    ## Reward
    With utilities `u_i = clip((g_i - q05_i) / (max_i - q05_i), -0.5, 1.6)` of g = (speed, -memory, accuracy), q05 and
    max over 128 random configurations: `-max_i w_i (1.2 - u_i) - 0.05 sum_i w_i (1.2 - u_i)` if feasible, else
    `-1 - min(violation, 1)`. Speed is epochs per second, or one over the seconds to accuracy.

    ## Start
    Weights are drawn from Dirichlet(0.7, 0.7, 0.7) unless `weights` fixes them.

    ## End
    Every episode terminates after its one step. None is truncated.

    ## Arguments
    `space, predict, limits, has_device, features, speed` as in `a3gnn_envs.context.Context`; `weights`: three numbers
    or None.

    ## Version
    v0: first.
    """

    def __init__(
        self,
        space: SearchSpace,
        predict: Predict,
        limits: Limits = NO_LIMITS,
        has_device: bool = False,
        features: Sequence[float] | NDArray[np.float32] = (),
        weights: Sequence[float] | None = None,
        speed: str = "throughput_epochs_per_s",
        render_mode: None = None,
    ) -> None:
        context = Context(space, predict, limits, has_device, np.asarray(features, dtype=np.float32), speed)
        super().__init__(OneShotEpisodes([context], num_envs=1, weights=weights), render_mode)
