"""Episodes side by side: the arithmetic that an environment and its batched form share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn_envs.context import Context
from a3gnn_envs.rewards import value

#: Concentration of the Dirichlet distribution of an episode's weights: below 1, single objectives stand out.
PREFERENCE_CONCENTRATION = 0.7


class Appraisal(NamedTuple):
    """What `Episodes.appraise` finds of one configuration an episode; each row belongs to one episode."""

    utilities: NDArray[np.float64]  # (count, 3): throughput, memory, accuracy
    slack: NDArray[np.float64]  # (count,): share of the tightest memory limit that is left
    value: NDArray[np.float64]  # (count,)


class Episodes(ABC):
    """`count` episodes of one environment, each in one of `contexts` with weights of its own.

    Attributes:
        observation_space: Of one episode.
        action_space: Of one episode.
        weights: Weights of throughput, memory and accuracy, float64, shape (count, 3).
        random: Where contexts, weights and starts are drawn from.

    Raises:
        UsageError: There are no contexts, or their spaces or features differ in shape.
    """

    observation_space: spaces.Box
    action_space: spaces.MultiDiscrete

    def __init__(self, contexts: Sequence[Context], count: int, weights: Sequence[float] | None = None) -> None:
        shapes = {(c.space.names, tuple(c.space.nvec.tolist()), c.features.shape) for c in contexts}
        if len(shapes) != 1:
            raise UsageError(
                f"episodes need contexts of one shape of space and features, got {len(shapes)} shapes; "
                "train one policy for each"
            )
        self.contexts = list(contexts)
        self.count = count
        self.weights = np.full((count, 3), 1 / 3)
        self.random = np.random.default_rng()
        self._fixed_weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self._context = np.zeros(count, dtype=np.int64)

    @property
    def nvec(self) -> NDArray[np.int64]:
        """The number of values of each knob, int64, shape (n_knobs,)."""
        return self.contexts[0].space.nvec

    def begin(self, where: NDArray[np.bool_]) -> None:
        """Starts new episodes at `where`, bool, shape (count,): draws their contexts and their weights."""
        fresh = int(where.sum())
        self._context[where] = self.random.integers(len(self.contexts), size=fresh)
        drawn = self.random.dirichlet(np.full(3, PREFERENCE_CONCENTRATION), size=fresh)
        self.weights[where] = drawn if self._fixed_weights is None else self._fixed_weights

    @abstractmethod
    def observe(self) -> NDArray[np.float32]:
        """Returns the observations, float32, shape (count, n_observed)."""

    @abstractmethod
    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Plays `actions` (count, n_knobs); returns rewards, float32, and whether each episode is over, bool."""

    def appraise(self, rows: NDArray[np.int64]) -> Appraisal:
        """Returns what `rows` (count, n_knobs) are worth, each in its episode's context and for its weights."""
        utilities, slack, violation = np.empty((self.count, 3)), np.empty(self.count), np.empty(self.count)
        for index in np.unique(self._context):
            context, at = self.contexts[index], self._context == index
            prediction = context.predict(context.space.canonical(rows[at]))
            utilities[at] = context.scale.utilities(prediction)
            slack[at] = context.slack(prediction)
            violation[at] = context.limits.violation(prediction)
        return Appraisal(utilities, slack, value(utilities, self.weights, violation))


class SingleEnv(gymnasium.Env[Any, Any]):
    """Shows one episode of `Episodes` as a gymnasium environment."""

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as an instance's

    def __init__(self, episodes: Episodes, render_mode: None = None) -> None:
        self.episodes = episodes
        self.render_mode = render_mode
        self.observation_space = episodes.observation_space
        self.action_space = episodes.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Returns the first observation of a new episode and an empty dictionary."""
        super().reset(seed=seed, options=options)
        self.episodes.random = self.np_random
        self.episodes.begin(np.ones(1, dtype=np.bool_))
        return self.episodes.observe()[0], {}

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated, truncated (never) and an empty dictionary."""
        rewards, over = self.episodes.step(np.asarray(action, dtype=np.int64)[None])
        return self.episodes.observe()[0], float(rewards[0]), bool(over[0]), False, {}
