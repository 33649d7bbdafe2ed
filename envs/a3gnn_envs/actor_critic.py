"""`ActorCritic`: base class of stable-baselines3 policies whose actor and critic are networks of their own."""

from __future__ import annotations

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn


class ActorCritic(ActorCriticPolicy):
    """An actor-critic policy whose networks share nothing.

    Subclasses create the networks in `_networks`, and map observations to actions in `get_distribution`.

    Attributes:
        critic: Returns values, float32, shape (n, 1), of observations.
    """

    critic: nn.Module

    def _networks(self) -> None:
        """Sets `critic` and the networks of the actor."""
        raise NotImplementedError

    def _build(self, lr_schedule: Schedule) -> None:
        self._networks()
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

    def predict_values(self, obs: PyTorchObs) -> torch.Tensor:
        """Returns the values of observations, float32, shape (n, 1)."""
        values: torch.Tensor = self.critic(obs)
        return values
