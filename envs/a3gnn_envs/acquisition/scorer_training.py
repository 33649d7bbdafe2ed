"""Training of a scorer with PPO (Schulman et al., 2017)."""

from __future__ import annotations

from a3gnn.errors import UsageError
from a3gnn.seeding import derive
from a3gnn_envs.acquisition.acquisition_env import NUM_CANDIDATES, AcquisitionEpisodes
from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.acquisition.scorer_policy import ScorerPolicy
from a3gnn_envs.acquisition.world import Worlds
from a3gnn_envs.isolated_torch import isolated_torch
from a3gnn_envs.quiet_ppo import quiet_ppo
from a3gnn_envs.vec_env import BatchedVecEnv

# Guesses.
_NUM_ENVS, _STEPS_PER_ROLLOUT = 64, 16
_BATCH_SIZE, _EPOCHS = 256, 4
#: The learning rate falls linearly from the first to the second.
_FIRST_RATE, _LAST_RATE = 1e-3, 1e-4
#: An update ends where the policy has moved so far: what it starts from is good.
_MOST_DIVERGENCE = 0.02
_GAE_LAMBDA = 0.95
#: Trials of a rollout: what `steps` are counted in.
ROLLOUT = _NUM_ENVS * _STEPS_PER_ROLLOUT


def train_scorer(
    worlds: Worlds, steps: int, seed: int, num_candidates: int = NUM_CANDIDATES, start: Scorer | None = None
) -> Scorer:
    """Returns a scorer that was trained for `steps` trials, rounded down to whole rollouts.

    Deterministic for a seed on one machine. Trains on the CPU in one thread, and restores torch's number of threads
    and all global generators.

    Args:
        worlds: What it is trained on.
        steps: Simulated trials.
        seed: Decides initial weights, worlds and actions.
        num_candidates: Of a world at most.
        start: What the training goes on from; by default the baseline.

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
