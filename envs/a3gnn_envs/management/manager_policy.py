"""`ManagerPolicy`: a perceptron beside what Algorithm 1 would do, and a critic, as stable-baselines3 trains them."""

from __future__ import annotations

import torch
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

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


class ManagerPolicy(ActorCriticPolicy):
    """An actor-critic policy for `ManagementEnv`; the last values that are seen are what Algorithm 1 would do."""

    def _build(self, lr_schedule: Schedule) -> None:
        self.num_actions = int(self.action_space.n)  # type: ignore[attr-defined]
        inputs = int(self.observation_space.shape[0])  # type: ignore[index]
        self.actor, self.critic = _perceptron(inputs, self.num_actions), _perceptron(inputs, 1)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    def forward(
        self, obs: torch.Tensor, deterministic: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns actions (n,), values (n, 1) and log probabilities (n,) of observations."""
        distribution = self.get_distribution(obs)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, self.critic(obs), distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: PyTorchObs, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Returns values (n, 1), log probabilities of `actions` (n,) and entropies (n,)."""
        distribution = self.get_distribution(obs)
        return self.predict_values(obs), distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """Returns the distribution of actions."""
        assert isinstance(obs, torch.Tensor), "observations are arrays"
        logits = self.actor(obs) + PRIOR * obs[:, -self.num_actions :]
        return CategoricalDistribution(self.num_actions).proba_distribution(logits)

    def predict_values(self, obs: PyTorchObs) -> torch.Tensor:
        """Returns the values of observations, float32, shape (n, 1)."""
        values: torch.Tensor = self.critic(obs)
        return values
