"""Many episodes as one stable-baselines3 `VecEnv`, stepped together as arrays."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from a3gnn_envs.episodes import Episodes


class BatchedVecEnv(VecEnv):
    """Steps all of `episodes` at once, with the semantics of `DummyVecEnv` over single environments.

    An environment whose episode terminates is reset within the step; the last observation is in
    `infos[i]["terminal_observation"]`. All environments terminate, so `TimeLimit.truncated` is always False there.
    All environments share one generator, which the next reset seeds with the first of the seeds given to `seed`.
    """

    def __init__(self, episodes: Episodes) -> None:
        self.render_mode = None
        self.episodes = episodes
        self._actions = np.zeros((episodes.num_envs, *(episodes.action_space.shape or ())), dtype=np.int64)
        super().__init__(episodes.num_envs, episodes.observation_space, episodes.action_space)

    def reset(self) -> NDArray[np.float32]:
        """Returns the first observations of new episodes, float32, shape (num_envs, *observation_space.shape)."""
        if self._seeds[0] is not None:
            self.episodes.np_random = np.random.default_rng(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        self.episodes.reset(np.ones(self.num_envs, dtype=np.bool_))
        return self.episodes.observe()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keeps `actions`, shape (num_envs, *action_space.shape), for `step_wait`."""
        self._actions = np.asarray(actions, dtype=np.int64)

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Returns observations, rewards (float32), dones (bool) and one dictionary per environment."""
        rewards, dones = self.episodes.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if dones.any():
            last = self.episodes.observe()
            for i in np.flatnonzero(dones):
                infos[i] = {"terminal_observation": last[i], "TimeLimit.truncated": False}
            self.episodes.reset(dones)
        return self.episodes.observe(), rewards, dones, infos

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns the attribute that all environments share, once for each of `indices`."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets the attribute that all environments share."""
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Is not supported: the environments are rows of arrays, without methods of their own.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"a batched environment can't call {method_name} on single ones; call it on .episodes")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Returns False for each of `indices`."""
        return [False for _ in self._get_indices(indices)]
