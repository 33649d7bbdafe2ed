"""The Markov decision process of A3GNN (III-C, Algo. 3): each step moves every knob by at most one value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn.limits import Limits
from a3gnn.prediction import Predict
from a3gnn.space import SearchSpace
from a3gnn_envs.context import MAX_UTILITY, MIN_UTILITY, NO_LIMITS, Context
from a3gnn_envs.context_episodes import ContextEpisodes
from a3gnn_envs.episodes import SingleEnv

# Guesses.
#: Steps per episode.
HORIZON = 16
#: The discount factor (gamma) for this horizon.
DISCOUNT = 0.9


class MovesEpisodes(ContextEpisodes):
    """Episodes of `MovesEnv`, batched.

    Attributes:
        rows: Each episode's current configuration, int64, shape (num_envs, n_knobs).
    """

    def __init__(self, contexts: Sequence[Context], num_envs: int, weights: Sequence[float] | None = None) -> None:
        super().__init__(contexts, num_envs, weights)
        knobs = len(self.nvec)
        low = [*[0.0] * knobs, *[MIN_UTILITY] * 3, *[0.0] * 3, -1.0, 0.0]
        high = [*[1.0] * knobs, *[MAX_UTILITY] * 3, *[1.0] * 5]
        self.observation_space = spaces.Box(np.array(low, dtype=np.float32), np.array(high, dtype=np.float32))
        self.action_space = spaces.MultiDiscrete(np.full(knobs, 3))
        self.rows = np.zeros((num_envs, knobs), dtype=np.int64)
        self._steps_left = np.zeros(num_envs, dtype=np.int64)

    def reset(self, where: NDArray[np.bool_]) -> None:
        """Starts new episodes at `where`, at random configurations."""
        super().reset(where)
        self.rows[where] = self.np_random.integers(0, self.nvec, size=(int(where.sum()), len(self.nvec)))
        self._steps_left[where] = HORIZON
        self._current = self.evaluate(self.rows)

    def observe(self) -> NDArray[np.float32]:
        """Returns configuration, utilities, weights, slack and time left, float32, shape (num_envs, n_knobs + 8)."""
        position = self.rows / np.maximum(self.nvec - 1, 1)
        tail = np.stack([self._current.slack, self._steps_left / HORIZON], axis=1)
        return np.hstack([position, self._current.utilities, self.weights, tail]).astype(np.float32)

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Returns the changes of score by the moves `actions - 1`, and which episodes have no steps left."""
        before = self._current.score
        self.rows = np.clip(self.rows + actions - 1, 0, self.nvec - 1)
        self._steps_left -= 1
        self._current = self.evaluate(self.rows)
        return (self._current.score - before).astype(np.float32), self._steps_left == 0


class MovesEnv(SingleEnv):
    """Improve a configuration step by step, watching its predicted performance (A3GNN, III-C, Algo. 3).

    ## Observation: `Box`, float32, shape (n_knobs + 8,)

    | index      | meaning                                                      | range       | unit  |
    |------------|--------------------------------------------------------------|-------------|-------|
    | 0 .. K - 1 | the configuration: each knob's index over its largest index  | [0, 1]      |       |
    | K .. K + 2 | utilities of predicted speed, memory and accuracy            | [-0.5, 1.6] |       |
    | K + 3 .. 5 | weights of speed, memory and accuracy, which sum to 1        | [0, 1]      |       |
    | K + 6      | slack: unused share of the tightest memory limit             | [-1, 1]     | share |
    | K + 7      | steps left                                                   | [0, 1]      | share |

    ## Action: `MultiDiscrete([3] * n_knobs)`
    For each knob: 0 is one value down, 1 stays, 2 is one value up. Moves beyond the first or last value do nothing.

    ## Reward
    The change of the configuration's score, so that an episode's rewards sum to its improvement. The score is
    `OneShotEnv`'s reward: minus a weighted distance from the utopian point if feasible, else `-1 - min(violation, 1)`.

    ## Start
    A uniformly random configuration. Weights are drawn from Dirichlet(0.7, 0.7, 0.7) unless `weights` fixes them.

    ## End
    Terminates after 16 steps. Steps left are observed, so this is a termination and not a truncation (Pardo et al.,
    2018). Meant for a discount factor of 0.9.

    ## Arguments
    `space, predict, limits, has_device, speed` as in `a3gnn_envs.context.Context`; `weights`: three numbers or None.

    ## Version
    v0: first.
    """

    def __init__(
        self,
        space: SearchSpace,
        predict: Predict,
        limits: Limits = NO_LIMITS,
        has_device: bool = False,
        weights: Sequence[float] | None = None,
        speed: str = "throughput_epochs_per_s",
        render_mode: None = None,
    ) -> None:
        context = Context(space, predict, limits, has_device, speed=speed)
        super().__init__(MovesEpisodes([context], num_envs=1, weights=weights), render_mode)
