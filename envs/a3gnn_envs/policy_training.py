"""Training of the policy with PPO (Schulman et al., 2017), and the set-up of PPO that all trainings share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import MultiCategoricalDistribution
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from a3gnn.errors import UsageError
from a3gnn.seeding import derive, generator
from a3gnn_envs.context import Context
from a3gnn_envs.context_episodes import PREFERENCE_CONCENTRATION
from a3gnn_envs.one_shot import OneShotEpisodes
from a3gnn_envs.vec_env import BatchedVecEnv

# Guesses, kept from a simulation that is not part of this repository.
#: Environments per rollout; fewer if there are few evaluations, so that there are some updates.
_MAX_ENVS, _MIN_ENVS = 512, 32
_STEPS_PER_ROLLOUT = 2
_WANTED_ROLLOUTS = 32
#: Rollouts below which a policy learns too little to be worth its evaluations.
_MIN_ROLLOUTS = 4
#: The learning rate falls linearly from the first to the second.
_FIRST_RATE, _LAST_RATE = 2e-3, 5e-5
_MAX_BATCH_SIZE, _EPOCHS, _ENTROPY_COEFFICIENT = 512, 4, 0.003
#: Layers of the actor and of the critic.
_NET_ARCH = [192, 192]
#: The fewest evaluations that `train_policy` takes.
MIN_EVALUATIONS = _MIN_ENVS * _STEPS_PER_ROLLOUT * _MIN_ROLLOUTS


@dataclass(frozen=True, slots=True)
class Policy:
    """A trained actor-critic network.

    Attributes:
        network: stable-baselines3's policy, on the CPU.
        context: The context that it was trained for.
        evaluations: Number of predictions in its training, repeated ones included.
    """

    network: ActorCriticPolicy
    context: Context
    evaluations: int

    def propose(self, count: int, seed: int) -> NDArray[np.int64]:
        """Returns `count` canonical rows, each sampled for newly drawn weights, int64, shape (count, n_knobs)."""
        random = generator(seed, "policy.propose")
        weights = random.dirichlet(np.full(3, PREFERENCE_CONCENTRATION), size=count)
        observed = np.tile(self.context.observation, (count, 1))
        with torch.no_grad():
            inputs = torch.from_numpy(np.hstack([observed, weights.astype(np.float32)]))
            actor = self.network.get_distribution(inputs)
        assert isinstance(actor, MultiCategoricalDistribution)
        logits = [knob.logits.numpy() for knob in actor.distribution]
        rows = [np.argmax(knob + random.gumbel(size=knob.shape), axis=1) for knob in logits]  # the Gumbel-max trick
        return self.context.space.canonical(np.stack(rows, axis=1).astype(np.int64))


def train_policy(context: Context, evaluations: int, seed: int, go_on: Callable[[int], bool] | None = None) -> Policy:
    """Returns a policy for `context`, trained with at most `evaluations` predictions.

    Deterministic for a seed on one machine. Trains on the CPU in one thread, since small networks gain nothing from
    more, and restores torch's number of threads and all global generators.

    Args:
        context: The context to propose configurations for.
        evaluations: Largest number of predictions to take, repeated ones included.
        seed: Decides initial weights, episodes and actions.
        go_on: Called before each batch of predictions with their number; False ends the training. None goes on.

    Raises:
        UsageError: `evaluations` is below `MIN_EVALUATIONS`.
    """
    if evaluations < MIN_EVALUATIONS:
        raise UsageError(f"evaluations must be >= {MIN_EVALUATIONS} to train a policy, got {evaluations}")
    num_envs = int(np.clip(evaluations // (_STEPS_PER_ROLLOUT * _WANTED_ROLLOUTS), _MIN_ENVS, _MAX_ENVS))
    rollout = num_envs * _STEPS_PER_ROLLOUT
    with isolated_torch():
        env = BatchedVecEnv(OneShotEpisodes([context], num_envs))
        ppo = _ppo(env, derive(seed, "train_policy"))
        ppo.learn(evaluations // rollout * rollout, callback=_StopTraining(go_on, num_envs))
    ppo.policy.set_training_mode(False)
    return Policy(ppo.policy, context, ppo.num_timesteps)


def _ppo(env: BatchedVecEnv, seed: int) -> PPO:
    return quiet_ppo(
        "MlpPolicy",
        env,
        seed,
        learning_rate=lambda left: _LAST_RATE + (_FIRST_RATE - _LAST_RATE) * left,
        n_steps=_STEPS_PER_ROLLOUT,
        batch_size=min(_MAX_BATCH_SIZE, env.num_envs * _STEPS_PER_ROLLOUT),
        n_epochs=_EPOCHS,
        gamma=0.0,  # episodes have one step: nothing to discount
        gae_lambda=1.0,
        ent_coef=_ENTROPY_COEFFICIENT,
        policy_kwargs={"net_arch": _NET_ARCH},
    )


class _StopTraining(BaseCallback):
    """Stops PPO when `go_on` returns False. SB3 calls it after each step, which is before the next one."""

    def __init__(self, go_on: Callable[[int], bool] | None, num_envs: int) -> None:
        super().__init__()
        self._go_on = go_on
        self._num_envs = num_envs

    def _on_step(self) -> bool:
        return self._go_on is None or self._go_on(self._num_envs)


def quiet_ppo(policy: str | type[ActorCriticPolicy], env: VecEnv, seed: int, **options: Any) -> PPO:
    """Returns PPO (Schulman et al., 2017) on the CPU, which writes nothing anywhere.

    Args:
        policy: Name or class of the policy, as stable-baselines3 takes it.
        env: The training environment.
        seed: Any integer >= 0.
        options: Further options of stable-baselines3's `PPO`.
    """
    made = PPO(policy, env, seed=seed % 2**32, device="cpu", **options)
    made.set_logger(Logger(folder=None, output_formats=[]))  # SB3's default logger creates a temporary folder
    return made


@contextmanager
def isolated_torch() -> Iterator[None]:
    """Uses one torch thread, and afterwards restores it and the global generators, which SB3 seeds."""
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
