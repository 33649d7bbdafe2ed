"""`ManagerPolicy`: a perceptron beside what Algorithm 1 would do, and a critic, as stable-baselines3 trains them."""

from __future__ import annotations

import torch
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import nn

from a3gnn_envs.actor_critic import ActorCritic

#: Units of the hidden layers of both. Guess.
_HIDDEN = 64
#: Logit of what Algorithm 1 would do, which is what an untrained policy does nine times of ten. Guess.
PRIOR = 5.5


def _perceptron(inputs: int, outputs: int) -> nn.Sequential:
    """Returns two hidden layers of tanh, and a last one that is zero at first."""
    last = nn.Linear(_HIDDEN, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _HIDDEN), nn.Tanh(), last)


class ManagerPolicy(ActorCritic):
    """An actor-critic policy for `ManagementEnv`; the last values that are seen are what Algorithm 1 would do."""

    def _networks(self) -> None:
        self.num_actions = int(self.action_space.n)  # type: ignore[attr-defined]
        inputs = int(self.observation_space.shape[0])  # type: ignore[index]
        self.actor, self.critic = _perceptron(inputs, self.num_actions), _perceptron(inputs, 1)

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """Returns the distribution of actions."""
        assert isinstance(obs, torch.Tensor), "observations are arrays"
        logits = self.actor(obs) + PRIOR * obs[:, -self.num_actions :]
        return CategoricalDistribution(self.num_actions).proba_distribution(logits)
