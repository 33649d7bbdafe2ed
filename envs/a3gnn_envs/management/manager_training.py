"""Training of a manager with PPO (Schulman et al., 2017), which can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.utils import set_random_seed
from torch import nn

from a3gnn.errors import StoreError, UsageError
from a3gnn.seeding import derive
from a3gnn_envs.actor_critic import ActorCritic
from a3gnn_envs.management.management_env import DISCOUNT, HORIZON, ManagementEpisodes
from a3gnn_envs.policy_training import isolated_torch, quiet_ppo
from a3gnn_envs.vec_env import BatchedVecEnv

#: Units of the hidden layers of actor and critic. Guess.
_HIDDEN = 64
#: Logit of the action of Algorithm 1, which an untrained policy takes nine times out of ten. Guess.
PRIOR = 5.5
# Guesses.
#: Parts of a rollout, and how often each part is learned from.
_PARTS, _EPOCHS = 4, 6
_RATE, _ENTROPY_COEFFICIENT, _GAE_LAMBDA = 7e-4, 0.003, 0.9
#: An update ends if the policy has moved this far, because it starts from Algorithm 1.
_MOST_DIVERGENCE = 0.03


class ManagerTraining:
    """PPO on episodes of management; deterministic for a seed and a sequence of calls on one machine.

    Args:
        episodes: The training episodes; all begin and end together.
        seed: Decides initial weights, platforms and actions.
        path: File of the state. Training resumes from an existing file; None stores no state.

    Attributes:
        policy: The policy as trained so far.
        steps: Steps of the environments so far.

    Raises:
        StoreError: The file at `path` can't be read.
    """

    def __init__(self, episodes: ManagementEpisodes, seed: int, path: Path | None = None) -> None:
        self._path, self._env, self._seed = path, BatchedVecEnv(episodes), seed
        state = None if path is None or not path.exists() else _read(path)
        # A resumed training draws other platforms than before, because seeds depend on the steps so far.
        self.steps = 0 if state is None else int(state["steps"])
        with isolated_torch():
            self._ppo = quiet_ppo(
                ManagerPolicy,
                self._env,
                self._next_seed(),
                learning_rate=_RATE,
                n_steps=HORIZON,
                batch_size=self.rollout // _PARTS,
                n_epochs=_EPOCHS,
                gamma=DISCOUNT,
                gae_lambda=_GAE_LAMBDA,
                ent_coef=_ENTROPY_COEFFICIENT,
                target_kl=_MOST_DIVERGENCE,
            )
        policy = self._ppo.policy
        assert isinstance(policy, ManagerPolicy), "it was asked for"
        self.policy = policy
        if state is not None:
            policy.load_state_dict(state["policy"])
            policy.optimizer.load_state_dict(state["optimizer"])

    @property
    def reward(self) -> float:
        """The mean sum of rewards of an episode of the last rollout."""
        return float(self._ppo.rollout_buffer.rewards.sum() / self._env.num_envs)

    @property
    def rollout(self) -> int:
        """Steps of the environments between two updates: one episode of each environment."""
        return HORIZON * self._env.num_envs

    def train(self, rollouts: int) -> None:
        """Trains for `rollouts` rollouts, and stores the state.

        Raises:
            UsageError: `rollouts` is less than 1.
        """
        if rollouts < 1:
            raise UsageError(f"rollouts must be >= 1, got {rollouts}")
        with isolated_torch():
            # SB3 draws from the global generators, which got the caller's state back after they were seeded.
            set_random_seed(self._next_seed() % 2**32)
            self._ppo.learn(rollouts * self.rollout, reset_num_timesteps=False)
        self.steps += rollouts * self.rollout
        if self._path is not None:
            state = {"policy": self.policy.state_dict(), "optimizer": self.policy.optimizer.state_dict()}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state | {"steps": self.steps}, self._path)

    def _next_seed(self) -> int:
        """Returns the seed of the rollouts that come next."""
        return derive(self._seed, "train_manager", self.steps)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise StoreError(f"{path} holds no training that can be gone on with ({error}); move it away") from error
    return found


class ManagerPolicy(ActorCritic):
    """An actor-critic policy for `ManagementEnv`; the last observed values say what Algorithm 1 would do."""

    def _networks(self) -> None:
        self.num_actions = int(self.action_space.n)  # type: ignore[attr-defined]
        inputs = int(self.observation_space.shape[0])  # type: ignore[index]
        self.actor, self.critic = _perceptron(inputs, self.num_actions), _perceptron(inputs, 1)

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """Returns the distribution of actions."""
        assert isinstance(obs, torch.Tensor), "observations are arrays"
        logits = self.actor(obs) + PRIOR * obs[:, -self.num_actions :]
        return CategoricalDistribution(self.num_actions).proba_distribution(logits)


def _perceptron(inputs: int, outputs: int) -> nn.Sequential:
    """Returns two hidden layers of tanh, and a last one that is zero at first."""
    last = nn.Linear(_HIDDEN, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _HIDDEN), nn.Tanh(), last)
