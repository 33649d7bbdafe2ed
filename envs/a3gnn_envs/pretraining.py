"""Training of the policy with PPO (Schulman et al., 2017), on one context or on many."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from a3gnn.errors import UsageError
from a3gnn.seeding import derive
from a3gnn_envs.context import Context
from a3gnn_envs.one_shot import OneShotEpisodes
from a3gnn_envs.policy import NET_ARCH, FeatureScale, Policy
from a3gnn_envs.vec_env import BatchedVecEnv

#: Environments side by side; fewer where there are few evaluations, so that there are some updates at all.
_MOST_ENVS, _LEAST_ENVS = 512, 32
_STEPS_A_ROLLOUT = 2
_FIRST_RATE, _LAST_RATE = 2e-3, 5e-5
#: Rollouts below which a policy learns nothing worth its evaluations.
_LEAST_ROLLOUTS = 4
#: The fewest evaluations that `train_policy` takes.
LEAST_EVALUATIONS = _LEAST_ENVS * _STEPS_A_ROLLOUT * _LEAST_ROLLOUTS


def train_policy(
    contexts: Sequence[Context], evaluations: int, seed: int, go_on: Callable[[int], bool] | None = None
) -> Policy:
    """Returns a policy trained on `contexts`, which share one shape of space, by at most `evaluations` predictions.

    Deterministic by `seed` on one machine. Trains on the CPU in one thread (small networks gain nothing from more) and
    leaves torch's threads and all global generators as they were.

    Args:
        contexts: One for each graph, machine and limit; features need not be scaled.
        evaluations: Predictions to ask for, repeated ones counted each.
        seed: Decides initial weights, episodes and actions.
        go_on: Asked before each batch of so many predictions whether to go on; None always does.

    Raises:
        UsageError: There are no contexts, their shapes differ, or `evaluations` is below `LEAST_EVALUATIONS`.
    """
    if evaluations < LEAST_EVALUATIONS:
        raise UsageError(f"evaluations must be >= {LEAST_EVALUATIONS} to train a policy, got {evaluations}")
    num_envs = int(np.clip(evaluations // (_STEPS_A_ROLLOUT * 32), _LEAST_ENVS, _MOST_ENVS))
    rollout = num_envs * _STEPS_A_ROLLOUT
    scale = FeatureScale.fit(list(contexts))
    with _alone():
        env = BatchedVecEnv(OneShotEpisodes([scale.apply(context) for context in contexts], num_envs))
        ppo = PPO(
            "MlpPolicy",
            env,
            learning_rate=lambda left: _LAST_RATE + (_FIRST_RATE - _LAST_RATE) * left,
            n_steps=_STEPS_A_ROLLOUT,
            batch_size=min(512, rollout),
            n_epochs=4,
            gamma=0.0,
            gae_lambda=1.0,
            ent_coef=0.003,
            policy_kwargs={"net_arch": NET_ARCH},
            seed=derive(seed, "train_policy") % 2**32,
            device="cpu",
        )
        ppo.set_logger(Logger(folder=None, output_formats=[]))  # SB3's own makes a folder in the temporary directory
        ppo.learn(evaluations // rollout * rollout, callback=_Ask(go_on, num_envs))
    ppo.policy.set_training_mode(False)
    space = contexts[0].space
    return Policy(ppo.policy, space.names, space.nvec, scale, ppo.num_timesteps, seed)


class _Ask(BaseCallback):
    """Stops PPO when `go_on` says so; SB3 asks after each step, which is before the next one."""

    def __init__(self, go_on: Callable[[int], bool] | None, num_envs: int) -> None:
        super().__init__()
        self._go_on = go_on
        self._num_envs = num_envs

    def _on_step(self) -> bool:
        return self._go_on is None or self._go_on(self._num_envs)


@contextmanager
def _alone() -> Iterator[None]:
    """One torch thread, and the global generators that SB3 seeds put back afterwards."""
    threads = torch.get_num_threads()
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - SB3 draws from the legacy generator
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
