"""Training of a scorer with PPO (Schulman et al., 2017)."""

from __future__ import annotations

import torch
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from a3gnn.errors import UsageError
from a3gnn.seeding import derive
from a3gnn_envs.acquisition.acquisition_env import NUM_CANDIDATES, AcquisitionEpisodes
from a3gnn_envs.acquisition.observation import ALLOWED, NUM_COLUMNS
from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.acquisition.world import Worlds
from a3gnn_envs.policy_training import isolated_torch, quiet_ppo
from a3gnn_envs.vec_env import BatchedVecEnv

#: Units of the critic's hidden layers. Guess.
_CRITIC_HIDDEN = 64
# Guesses.
_NUM_ENVS, _STEPS_PER_ROLLOUT = 64, 16
_BATCH_SIZE, _EPOCHS = 256, 4
#: The learning rate falls linearly from the first to the second.
_FIRST_RATE, _LAST_RATE = 1e-3, 1e-4
#: An update ends if the policy has moved this far, because it starts from a good one.
_MOST_DIVERGENCE = 0.02
_GAE_LAMBDA = 0.95
#: Trials of a rollout; `train_scorer` rounds its `steps` down to whole rollouts.
ROLLOUT = _NUM_ENVS * _STEPS_PER_ROLLOUT


def train_scorer(
    worlds: Worlds, steps: int, seed: int, num_candidates: int = NUM_CANDIDATES, start: Scorer | None = None
) -> Scorer:
    """Returns a scorer that was trained for `steps` trials, rounded down to whole rollouts.

    Deterministic for a seed on one machine. Trains on the CPU in one thread, and restores torch's number of threads
    and all global generators.

    Args:
        worlds: Source of the training worlds.
        steps: Simulated trials.
        seed: Decides initial weights, worlds and actions.
        num_candidates: Largest number of candidates of a world.
        start: The scorer from which training starts; by default the baseline.

    Raises:
        UsageError: `steps` is less than one rollout.
    """
    if steps < ROLLOUT:
        raise UsageError(f"steps must be >= {ROLLOUT} to train a scorer, got {steps}")
    with isolated_torch():
        env = BatchedVecEnv(AcquisitionEpisodes(worlds, _NUM_ENVS, num_candidates))
        ppo = quiet_ppo(
            ScorerPolicy,
            env,
            derive(seed, "train_scorer"),
            learning_rate=lambda left: _LAST_RATE + (_FIRST_RATE - _LAST_RATE) * left,
            n_steps=_STEPS_PER_ROLLOUT,
            batch_size=_BATCH_SIZE,
            n_epochs=_EPOCHS,
            gamma=1.0,  # a study's end is its aim
            gae_lambda=_GAE_LAMBDA,
            target_kl=_MOST_DIVERGENCE,
        )
        policy = ppo.policy
        assert isinstance(policy, ScorerPolicy)
        if start is not None:
            policy.scorer.load_state_dict(start.state_dict())
        ppo.learn(steps // ROLLOUT * ROLLOUT)
    return policy.scorer.requires_grad_(False).eval()


class ScorerPolicy(ActorCriticPolicy):
    """An actor-critic policy of `Scorer` and `TruthfulCritic`, which share nothing, for `AcquisitionEnv`."""

    def _build(self, lr_schedule: Schedule) -> None:
        self.scorer, self.critic = Scorer(), TruthfulCritic()
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    def get_distribution(self, obs: PyTorchObs) -> Distribution:
        """Returns the distribution of actions."""
        return CategoricalDistribution(int(self.action_space.n)).proba_distribution(self.scorer(obs))  # type: ignore[attr-defined]

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


class TruthfulCritic(nn.Module):
    """Values a study by all columns, including the truth, regardless of the order of the candidates.

    It is needed only in training, where the truth is known (Pinto et al., "Asymmetric Actor Critic for Image-Based
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
        tried = (observed[..., ALLOWED].amax(dim=-1, keepdim=True) > 0).to(rows.dtype)  # stopping is always allowed
        mean = (rows * tried).sum(dim=1) / tried.sum(dim=1)
        largest = rows.masked_fill(tried < 0.5, -1.0).amax(dim=1)  # tanh is above -1
        value: torch.Tensor = self.study(torch.cat([mean, largest, rows[:, -1]], dim=1))
        return value
