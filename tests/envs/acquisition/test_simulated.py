from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.simulated import SimulatedWorlds
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, SPEED, WORK, World
from tests.envs.acquisition.worlds import make_prior


def test_a_seed_decides_a_world(worlds: SimulatedWorlds) -> None:
    first, second, other = (worlds.draw(np.random.default_rng(seed)) for seed in (3, 3, 4))
    for field in dataclasses.fields(World):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))
    assert (first.truth != other.truth).any()


def test_what_one_learning_key_learns_is_one_curve(worlds: SimulatedWorlds) -> None:
    world = worlds.draw(np.random.default_rng(0))
    shared = 0
    for key in np.unique(world.keys):
        alike = world.keys == key
        shared += int(alike.sum() > 1)
        off = world.truth[ACCURACY, alike] - world.mean[ACCURACY, alike]
        np.testing.assert_allclose(off, off[0], atol=1e-6)
    assert shared
    np.testing.assert_array_equal(world.truth[[ACCURACY, WORK]], world.measured[[ACCURACY, WORK]])
    assert (world.early >= world.measured[ACCURACY])[~np.isnan(world.early)].all()


def test_curves_agree_with_accuracies_and_seconds(worlds: SimulatedWorlds) -> None:
    """The target is reached in time, and in a quarter of it, by what says so in both."""
    random, early = np.random.default_rng(0), 0
    for _ in range(50):
        world = worlds.draw(random)
        share, target = world.truth[SPEED] + world.truth[WORK], world.limits[ACCURACY]
        np.testing.assert_array_equal(world.truth[ACCURACY] <= target, share <= 1e-12)
        np.testing.assert_array_equal(world.early <= target, share <= -2)
        early += int((share <= -2).sum())
    assert early > 10


def test_truths_scatter_as_is_believed_and_measurements_around_them() -> None:
    """Over many worlds: a level that the candidates share, and noise; both on the scale of the prior's variances."""
    prior = make_prior()
    worlds = SimulatedWorlds([prior], num_candidates=12, priority=Priority.parse("throughput"))
    random = np.random.default_rng(0)
    drawn = [worlds.draw(random) for _ in range(400)]
    off = np.stack([world.truth - world.mean for world in drawn])
    noise = np.stack([world.measured - world.truth for world in drawn])
    average = np.exp(0.5**2 / 2)  # of the factor on variances, but for a mean of its logarithm
    for cost in (SPEED, MEMORY):
        believed = prior.between[cost] + prior.within[cost]
        assert off[:, cost].var() == pytest.approx(believed * average * np.exp(0.7), rel=0.25)
        assert off[:, cost].mean(axis=1).var() > 0.6 * prior.between[cost]
        assert noise[:, cost].var() == pytest.approx(prior.noise[cost] * average, rel=0.2)
    assert 0.005 < np.mean([world.crashes for world in drawn]) < 0.04
    assert not any(world.crashes[0] for world in drawn)
    late = np.isnan([world.early for world in drawn])
    unreached = np.stack([world.truth[SPEED] + world.truth[WORK] for world in drawn]) > -2  # in a quarter
    assert late[unreached].mean() == pytest.approx(prior.late_share, abs=0.05)
    assert not late[~unreached].any()
    limited = np.mean([np.isfinite(world.limits[MEMORY]) for world in drawn])
    assert 0.4 < limited < 0.6
    assert all(world.ends_at_target for world in drawn)


def test_half_of_the_candidates_are_the_best_as_believed() -> None:
    prior = make_prior(count=200)
    worlds = SimulatedWorlds([prior], num_candidates=20, priority=Priority.parse("throughput"))
    world = worlds.draw(np.random.default_rng(0))
    np.testing.assert_array_equal(world.mean[:, 0], prior.mean[:, 0])
    believed = -(world.weights @ world.mean)
    every = -(world.weights @ prior.mean)
    assert np.median(believed[1:11]) > np.quantile(every, 0.9)
    assert np.median(believed[11:]) < np.quantile(every, 0.8)


def test_too_few_configurations_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 61 configurations, got 60"):
        SimulatedWorlds([make_prior()], num_candidates=61)
    with pytest.raises(UsageError, match="got 0"):
        SimulatedWorlds([], num_candidates=4)
