"""`quiet_ppo`: PPO as every training here begins it."""

from __future__ import annotations

from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv


def quiet_ppo(policy: str | type[ActorCriticPolicy], env: VecEnv, seed: int, **options: Any) -> PPO:
    """Returns PPO (Schulman et al., 2017) on the CPU, which writes nothing anywhere.

    Args:
        policy: As stable-baselines3 takes it.
        env: What it is trained in.
        seed: Any integer >= 0.
        options: Further ones of stable-baselines3's `PPO`.
    """
    made = PPO(policy, env, seed=seed % 2**32, device="cpu", **options)
    made.set_logger(Logger(folder=None, output_formats=[]))  # SB3's default logger creates a temporary folder
    return made
