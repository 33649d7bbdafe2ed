from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_for_gymnasium
from stable_baselines3.common.env_checker import check_env as check_for_sb3

from a3gnn.errors import UsageError
from a3gnn.limits import FEASIBLE, Limits
from a3gnn_envs.context import Context, scalarise
from a3gnn_envs.moves import HORIZON, MovesEpisodes
from a3gnn_envs.one_shot import OneShotEpisodes

WEIGHTS = (0.5, 0.3, 0.2)
#: Those that choose configurations by predictions; tests/envs/acquisition has the other.
CONTEXTUAL = ("a3gnn/Moves-v0", "a3gnn/OneShot-v0")


def make(name: str, context: Context, **options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(
        name, space=context.space, predict=context.predict, limits=context.limits, **options
    ).unwrapped


def score(context: Context, row: np.ndarray) -> float:
    found = context.predict(context.space.canonical(row[None]))
    utilities = context.scale.utilities(found)
    return float(scalarise(utilities, np.array(WEIGHTS), context.limits.violation(found))[0])


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_passes_both_checkers(name: str, context: Context) -> None:
    env = make(name, context)
    check_for_gymnasium(env)
    check_for_sb3(env)


def test_registering_loads_no_torch() -> None:
    code = "import sys, a3gnn_envs; sys.exit('torch' in sys.modules or 'stable_baselines3' in sys.modules)"
    path = ":".join(p for p in sys.path if p)
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False).returncode == 0


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_a_seed_decides_the_episode(name: str, context: Context) -> None:
    def play(seed: int) -> list[float]:
        env = make(name, context)
        env.action_space.seed(seed)
        observation, _ = env.reset(seed=seed)
        seen = list(observation)
        over = False
        while not over:
            observation, reward, over, _, _ = env.step(env.action_space.sample())
            seen += [*observation, reward]
        return seen

    assert play(4) == play(4)
    assert play(4) != play(5)


def test_one_shot_rewards_the_score_and_ends(context: Context) -> None:
    env = make("a3gnn/OneShot-v0", context, features=context.features / 30, weights=WEIGHTS)
    observation, _ = env.reset(seed=0)
    np.testing.assert_allclose(observation[-3:], WEIGHTS)
    np.testing.assert_allclose(observation[:-5], context.features / 30, rtol=1e-6)
    np.testing.assert_allclose(observation[-5], np.log10(context.limits.host_bytes) - 9, rtol=1e-5)
    for row in context.space.sample(20, seed=2):
        env.reset()
        _, reward, terminated, truncated, _ = env.step(row)
        assert terminated
        assert not truncated
        np.testing.assert_allclose(reward, score(context, row), rtol=1e-6)


def test_rewards_of_moves_sum_to_what_was_gained(context: Context) -> None:
    env = make("a3gnn/Moves-v0", context, weights=WEIGHTS)
    env.action_space.seed(0)
    env.reset(seed=0)
    episodes: MovesEpisodes = env.episodes  # type: ignore[attr-defined]
    start = score(context, episodes.rows[0])
    total, ends = 0.0, []
    for _ in range(HORIZON):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        total += reward
        ends.append(terminated)
        assert not truncated
    assert ends == [False] * (HORIZON - 1) + [True]
    assert observation[-1] == 0
    np.testing.assert_allclose(total, score(context, episodes.rows[0]) - start, atol=1e-5)


def test_moves_stop_at_the_ends(context: Context) -> None:
    env = make("a3gnn/Moves-v0", context)
    env.reset(seed=0)
    knobs = len(context.space.nvec)
    for _ in range(HORIZON):
        observation, *_ = env.step(np.full(knobs, 2))
    np.testing.assert_array_equal(env.episodes.rows[0], context.space.nvec - 1)  # type: ignore[attr-defined]
    assert observation[:knobs].max() == 1


def test_slack_is_one_without_a_limit_and_negative_beyond_it(context: Context) -> None:
    found = context.predict(context.space.sample(50, seed=1))
    assert (Context(context.space, context.predict).slack(found) == 1).all()
    slack = context.slack(found)
    np.testing.assert_array_equal(slack < 0, context.limits.violation(found) > 0)


def test_without_a_limit_the_largest_memory_is_observed(context: Context) -> None:
    free = Context(context.space, context.predict)
    memory = free.scale_sample.with_probability("peak_host_bytes", FEASIBLE)
    np.testing.assert_allclose(free.observation[-2], np.log10(memory.max()) - 9, rtol=1e-5)
    np.testing.assert_allclose(free.observation[-1], memory.min() / memory.max(), rtol=1e-5)


def test_contexts_of_different_shapes_are_refused(context: Context) -> None:
    other = Context(context.space.fix("batch_size", 64), context.predict, Limits(), False, context.features)
    with pytest.raises(UsageError, match="one shape"):
        OneShotEpisodes([context, other], num_envs=2)
    with pytest.raises(UsageError, match="got 0 shapes"):
        OneShotEpisodes([], num_envs=2)
