"""Episodes of an environment in batches: the arithmetic that an environment and its vectorized form share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Episodes(ABC):
    """`num_envs` episodes of one environment.

    Attributes:
        observation_space: The space of one episode's observation.
        action_space: The space of one episode's action.
        num_envs: Number of episodes.
        np_random: The generator of all random draws.
    """

    observation_space: spaces.Box
    action_space: spaces.MultiDiscrete | spaces.Discrete

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.np_random = np.random.default_rng()

    @abstractmethod
    def reset(self, where: NDArray[np.bool_]) -> None:
        """Starts new episodes at `where`, bool, shape (num_envs,)."""

    @abstractmethod
    def observe(self) -> NDArray[np.float32]:
        """Returns the observations, float32, shape (num_envs, *observation_space.shape)."""

    @abstractmethod
    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Returns rewards, float32, and which episodes terminated, bool; `actions`: (num_envs, *action_space.shape)."""


class SingleEnv(gymnasium.Env[Any, Any]):
    """One episode of `Episodes` as a gymnasium environment."""

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
        self.episodes.np_random = self.np_random
        self.episodes.reset(np.ones(1, dtype=np.bool_))
        return self.episodes.observe()[0], {}

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated, truncated (never) and an empty dictionary."""
        rewards, over = self.episodes.step(np.asarray(action, dtype=np.int64)[None])
        return self.episodes.observe()[0], float(rewards[0]), bool(over[0]), False, {}
