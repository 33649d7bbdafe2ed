"""`ScorerPolicy`: a scorer as the actor, and a critic that sees the truth, as stable-baselines3 trains them."""

from __future__ import annotations

import torch
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import nn

from a3gnn_envs.acquisition.observation import ALLOWED, NUM_COLUMNS
from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.actor_critic import ActorCritic

#: Units of the critic's hidden layers. Guess.
_CRITIC_HIDDEN = 64


class TruthfulCritic(nn.Module):
    """Values a study by all columns, the truth among them, whatever the order of the candidates.

    It is needed in training only, where the truth is known (Pinto et al., "Asymmetric Actor Critic for Image-Based
    Robot Learning", 2018).
    """

    def __init__(self) -> None:
        super().__init__()
        hidden = _CRITIC_HIDDEN
        self.row = nn.Sequential(nn.Linear(NUM_COLUMNS, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.study = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, observed: torch.Tensor) -> torch.Tensor:
        """Returns the values of observations (n, num_candidates + 1, NUM_COLUMNS), float32, shape (n, 1)."""
        rows = self.row(observed)
        tried = (observed[..., ALLOWED].amax(dim=-1, keepdim=True) > 0).to(rows.dtype)  # stopping always is
        mean = (rows * tried).sum(dim=1) / tried.sum(dim=1)
        largest = rows.masked_fill(tried < 0.5, -1.0).amax(dim=1)  # tanh is above -1
        value: torch.Tensor = self.study(torch.cat([mean, largest, rows[:, -1]], dim=1))
        return value


class ScorerPolicy(ActorCritic):
    """An actor-critic policy of `Scorer` and `TruthfulCritic`, for the observations of `AcquisitionEnv`."""

    def _networks(self) -> None:
        self.scorer, self.critic = Scorer(), TruthfulCritic()

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """Returns the distribution of actions."""
        return CategoricalDistribution(int(self.action_space.n)).proba_distribution(self.scorer(obs))  # type: ignore[attr-defined]
