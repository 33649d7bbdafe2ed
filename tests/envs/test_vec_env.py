from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from a3gnn.prediction import Prediction
from a3gnn_envs.context import Context
from a3gnn_envs.episodes import Episodes
from a3gnn_envs.moves import DISCOUNT, HORIZON, MovesEnv, MovesEpisodes
from a3gnn_envs.one_shot import OneShotEpisodes
from a3gnn_envs.vec_env import BatchedVecEnv

KINDS: list[type[Episodes]] = [MovesEpisodes, OneShotEpisodes]


def actions(env: BatchedVecEnv, random: np.random.Generator) -> np.ndarray:
    nvec = env.action_space.nvec  # type: ignore[attr-defined]
    return random.integers(0, nvec, size=(env.num_envs, len(nvec)))


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_types_and_distinct_infos(kind: type[Episodes], many_contexts: list[Context]) -> None:
    env = BatchedVecEnv(kind([dataclasses.replace(c, features=c.features / 30) for c in many_contexts], num_envs=12))
    env.seed(1)
    assert env.observation_space.contains(env.reset()[0])
    observations, rewards, dones, infos = env.step(actions(env, np.random.default_rng(0)))
    assert observations.shape == (12, *env.observation_space.shape)  # type: ignore[misc]
    assert (observations.dtype, rewards.dtype, dones.dtype) == (np.float32, np.float32, np.bool_)
    assert all(env.observation_space.contains(row) for row in observations)
    assert len({id(info) for info in infos}) == 12
    assert env.get_attr("render_mode") == [None] * 12
    assert env.env_is_wrapped(object, indices=[0, 3]) == [False, False]  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="batched"):
        env.env_method("anything")


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_everything(kind: type[Episodes], context: Context) -> None:
    def play(seed: int) -> list[float]:
        env = BatchedVecEnv(kind([context], num_envs=4))
        env.seed(seed)
        random = np.random.default_rng(0)
        seen = env.reset().ravel().tolist()
        for _ in range(HORIZON + 1):
            observations, rewards, _, _ = env.step(actions(env, random))
            seen += [*observations.ravel().tolist(), *rewards.tolist()]
        return seen

    assert play(7) == play(7)
    assert play(7) != play(8)


def test_equals_single_environments_between_resets(context: Context) -> None:
    batched = BatchedVecEnv(MovesEpisodes([context], num_envs=3, weights=(0.5, 0.3, 0.2)))
    singles = DummyVecEnv(
        [lambda: MovesEnv(context.space, context.predict, context.limits, weights=(0.5, 0.3, 0.2))] * 3
    )
    batched.seed(0)
    batched.reset()
    singles.reset()
    for env, row in zip(singles.envs, batched.episodes.rows, strict=True):  # type: ignore[attr-defined]
        env.episodes.rows[0] = row  # type: ignore[attr-defined]
        env.step(np.ones(len(row), dtype=np.int64))  # stay: only to look at the configuration put there
    batched.step(np.ones((3, len(context.space.nvec)), dtype=np.int64))
    random = np.random.default_rng(0)
    for _ in range(HORIZON - 1):
        moves = actions(batched, random)
        here, there = batched.step(moves), singles.step(moves)
        np.testing.assert_allclose(here[1], there[1], atol=1e-6)
        np.testing.assert_array_equal(here[2], there[2])
    for mine, other in zip(here[3], there[3], strict=True):
        np.testing.assert_allclose(mine["terminal_observation"], other["terminal_observation"], atol=1e-6)
        assert mine["TimeLimit.truncated"] == other["TimeLimit.truncated"]


def test_the_terminal_observation_is_the_old_episodes(context: Context) -> None:
    env = BatchedVecEnv(MovesEpisodes([context], num_envs=2))
    env.seed(0)
    env.reset()
    stay = np.ones((2, len(context.space.nvec)), dtype=np.int64)
    for _ in range(HORIZON - 1):
        last, _, dones, infos = env.step(stay)
        assert not dones.any()
        assert not any(infos)
    new, _, dones, infos = env.step(stay)
    assert dones.all()
    for i, info in enumerate(infos):
        old = info["terminal_observation"]
        np.testing.assert_array_equal(old[:-1], last[i, :-1])
        assert old[-1] == 0
        assert new[i, -1] == 1
        assert not info["TimeLimit.truncated"]


def test_one_call_of_the_predictor_a_step(context: Context) -> None:
    calls: list[int] = []

    def counted(rows: np.ndarray) -> Prediction:
        calls.append(len(rows))
        return context.predict(rows)

    env = BatchedVecEnv(OneShotEpisodes([dataclasses.replace(context, predict=counted)], num_envs=32))
    env.reset()
    env.step(actions(env, np.random.default_rng(0)))
    calls.clear()
    env.step(actions(env, np.random.default_rng(1)))
    assert calls == [32]


def test_ppo_learns_on_the_moves(context: Context) -> None:
    env = BatchedVecEnv(MovesEpisodes([context], num_envs=16))
    agent = PPO("MlpPolicy", env, n_steps=HORIZON, batch_size=256, n_epochs=1, gamma=DISCOUNT, device="cpu", seed=0)
    agent.set_logger(Logger(folder=None, output_formats=[]))  # SB3's own makes a folder in the temporary directory
    before = [p.detach().clone() for p in agent.policy.parameters()]
    agent.learn(16 * HORIZON)
    assert any((p != q).any() for p, q in zip(agent.policy.parameters(), before, strict=True))
