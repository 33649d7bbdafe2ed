from __future__ import annotations

import dataclasses
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_for_gymnasium
from stable_baselines3.common.env_checker import check_env as check_for_sb3
from stable_baselines3.common.vec_env import DummyVecEnv

from a3gnn_envs.acquisition.acquisition_env import AcquisitionEnv, AcquisitionEpisodes
from a3gnn_envs.acquisition.observation import (
    ALLOWED,
    BOUND,
    FEATURE_COLUMNS,
    FEATURES,
    NUM_COLUMNS,
    TRUTH_COLUMNS,
    VALUES,
    observe,
)
from a3gnn_envs.acquisition.simulated import SimulatedWorlds
from a3gnn_envs.acquisition.studies import Studies
from a3gnn_envs.acquisition.trial_values import choose, log_values, run_baseline
from a3gnn_envs.acquisition.world import World
from a3gnn_envs.vec_env import BatchedVecEnv

CANDIDATES = 12


class InTurn:
    """Serves the same worlds again and again."""

    def __init__(self, worlds: list[World]) -> None:
        self._worlds, self._next = worlds, 0

    def draw(self, random: np.random.Generator) -> World:
        world = self._worlds[self._next % len(self._worlds)]
        self._next += 1
        return world


def drawn(worlds: SimulatedWorlds, count: int, seed: int = 0) -> list[World]:
    random = np.random.default_rng(seed)
    return [worlds.draw(random) for _ in range(count)]


def studies_of(worlds: SimulatedWorlds, count: int, seed: int = 0) -> Studies:
    return Studies(World.stack(drawn(worlds, count, seed), CANDIDATES))


def test_passes_both_checkers(worlds: SimulatedWorlds) -> None:
    env = gymnasium.make("a3gnn/Acquisition-v0", worlds=worlds, num_candidates=CANDIDATES).unwrapped
    check_for_gymnasium(env)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your observation.*has an unconventional shape")  # a row per candidate
        check_for_sb3(env)


def test_observations_are_laid_out_as_the_data_sheet_says(worlds: SimulatedWorlds) -> None:
    places = {name: FEATURE_COLUMNS.start + place for place, name in enumerate(FEATURES)}
    assert (NUM_COLUMNS, TRUTH_COLUMNS.start) == (34, 31)
    assert (places["is_stop"], places["improvement"], places["noise"], places["relative_speed"]) == (6, 7, 11, 12)
    assert (places["log_memory_kept"], places["relative_value_timing"], places["log_share_timing"]) == (18, 21, 24)
    assert (places["timed"], places["has_eligible"]) == (27, 30)
    studies = studies_of(worlds, 5)
    seen = observe(studies, np.zeros(5))
    assert seen.shape == (5, CANDIDATES + 1, NUM_COLUMNS)
    np.testing.assert_array_equal(seen[:, :-1, ALLOWED] > 0, studies.allowed())
    np.testing.assert_array_equal(seen[:, -1, ALLOWED], np.tile([1.0, 0.0, 0.0], (5, 1)))
    np.testing.assert_array_equal(seen[..., VALUES], log_values(studies))
    np.testing.assert_array_equal(seen[..., 6], np.tile(np.arange(CANDIDATES + 1) == CANDIDATES, (5, 1)))
    assert (np.abs(seen) <= BOUND).all()
    assert seen[0, 0, places["timed"]] == 1
    assert seen[0, 0, places["trained"]] == 1
    assert (seen[:, :, places["budget_left"]] == 1).all()


def test_rows_follow_the_candidates_and_fill_up_with_nothing(worlds: SimulatedWorlds) -> None:
    """Other orders of the others, and more room, change no row."""
    world = drawn(worlds, 1)[0]
    order = np.concatenate([[0], 1 + np.random.default_rng(1).permutation(CANDIDATES - 1)])
    others = {
        name: getattr(world, name)[..., order]
        for name in ("present", "mean", "truth", "measured", "play_off", "early", "crashes", "keys")
    }
    covariance = world.covariance[:, order][:, :, order]
    moved = dataclasses.replace(world, covariance=covariance, **others)
    seen = observe(Studies(World.stack([world], CANDIDATES)), np.zeros(1))[0]
    again = observe(Studies(World.stack([moved], CANDIDATES + 7)), np.zeros(1))[0]
    np.testing.assert_allclose(again[:CANDIDATES], seen[order], atol=1e-5)
    np.testing.assert_allclose(again[-1], seen[-1], atol=1e-5)
    assert not again[CANDIDATES:-1].any()


def test_units_of_the_metrics_do_not_matter(worlds: SimulatedWorlds) -> None:
    """A machine that is four times as fast with twice the memory, and trials that take ten times as long."""
    world = drawn(worlds, 1)[0]
    shift = np.array([-2.0, 1.0, 0.0, 2.0])
    costs = {name: getattr(world, name) + shift[:, None] for name in ("mean", "truth", "measured", "play_off")}
    seconds = {name: getattr(world, name) * 10 for name in ("start_s", "curve_s", "budget_s")}
    other = dataclasses.replace(world, limits=world.limits + shift, **costs, **seconds)
    seen, again = (Studies(World.stack([one], CANDIDATES)) for one in (world, other))
    actor = slice(0, FEATURE_COLUMNS.stop)
    np.testing.assert_allclose(
        observe(again, np.zeros(1))[..., actor], observe(seen, np.zeros(1))[..., actor], atol=1e-4
    )


def test_rewards_sum_to_the_gain_over_the_baseline(worlds: SimulatedWorlds) -> None:
    start = drawn(worlds, 6, seed=3)
    by_baseline = Studies(World.stack(start, CANDIDATES))
    run_baseline(by_baseline)
    episodes = AcquisitionEpisodes(InTurn(start), 6, CANDIDATES)
    episodes.reset(np.ones(6, dtype=np.bool_))
    np.testing.assert_allclose(episodes.baseline, by_baseline.utility())
    random, total, over = np.random.default_rng(0), np.zeros(6), np.zeros(6, dtype=np.bool_)
    while not over.all():
        values = random.standard_normal((6, CANDIDATES + 1, 3)).astype(np.float32)
        rewards, now = episodes.step(choose(values, episodes.studies.allowed()))
        total += np.where(over, 0.0, rewards)
        over = now
    np.testing.assert_allclose(total, episodes.studies.utility() - by_baseline.utility(), atol=1e-5)
    assert np.abs(total).max() > 1e-3


def test_the_baseline_gains_nothing_over_itself(worlds: SimulatedWorlds) -> None:
    env = AcquisitionEnv(worlds, CANDIDATES)
    for seed in range(5):
        env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            studies = env.episodes.studies  # type: ignore[attr-defined]
            action = choose(log_values(studies), studies.allowed())[0]
            _, reward, over, _, _ = env.step(action)
            total += reward
        assert total == pytest.approx(0.0, abs=1e-6)


def test_a_seed_decides_everything(worlds: SimulatedWorlds) -> None:
    def play(seed: int) -> list[float]:
        env = BatchedVecEnv(AcquisitionEpisodes(worlds, 4, CANDIDATES))
        env.seed(seed)
        seen = env.reset().ravel().tolist()
        random = np.random.default_rng(0)
        for _ in range(20):
            studies = env.episodes.studies  # type: ignore[attr-defined]
            values = random.standard_normal((4, CANDIDATES + 1, 3)).astype(np.float32)
            observations, rewards, _, _ = env.step(choose(values, studies.allowed()))
            seen += [*observations.ravel().tolist(), *rewards.tolist()]
        return seen

    assert play(7) == play(7)
    assert play(7) != play(8)


def test_an_environment_that_is_reset_with_a_seed_forgets_what_it_drew(worlds: SimulatedWorlds) -> None:
    env = AcquisitionEnv(worlds, CANDIDATES)
    first, _ = env.reset(seed=3)
    env.reset(seed=4)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, again)


def test_equals_single_environments(worlds: SimulatedWorlds) -> None:
    """Through episodes' ends and what follows them; each environment has worlds of its own."""
    start = drawn(worlds, 3, seed=5)
    batched = BatchedVecEnv(AcquisitionEpisodes(InTurn(start), 3, CANDIDATES))
    singles = DummyVecEnv([lambda world=world: AcquisitionEnv(InTurn([world]), CANDIDATES) for world in start])
    np.testing.assert_array_equal(batched.reset(), singles.reset())
    random, ends = np.random.default_rng(0), np.zeros(3, dtype=np.int64)
    while not ends.all():
        values = random.standard_normal((3, CANDIDATES + 1, 3)).astype(np.float32)
        actions = choose(values, batched.episodes.studies.allowed())  # type: ignore[attr-defined]
        here, there = batched.step(actions), singles.step(actions)
        np.testing.assert_allclose(here[1], there[1], atol=1e-6)
        np.testing.assert_array_equal(here[2], there[2])
        for done, mine, other in zip(here[2], here[3], there[3], strict=True):
            if done:
                np.testing.assert_allclose(mine["terminal_observation"], other["terminal_observation"], atol=1e-5)
        going = ends == 0  # a world's turn comes in another order afterwards
        np.testing.assert_allclose(here[0][going & ~here[2]], there[0][going & ~here[2]], atol=1e-5)
        ends += here[2]
        if here[2].any():
            break
