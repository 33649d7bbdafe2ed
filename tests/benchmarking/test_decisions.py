"""Rules of acquisition replayed on measured grids: here the shipped rows of three graphs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from optuna.trial import FrozenTrial

from a3gnn.measurement import Measurement
from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.studies import FIDELITIES, WHOLE, Studies
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, SPEED, World
from benchmarks.acquisition.compare import baseline, follow, rules, whole_trials
from benchmarks.acquisition.optuna_rules import SamplerValues, optuna_rules
from benchmarks.acquisition.replays import Grid, held_out_grids
from benchmarks.acquisition.sampler_proposals import SAMPLERS
from benchmarks.decisions import Goals, goals, lines, replay, untrained

BY_SPEED = Priority.parse("throughput")


@pytest.fixture(scope="module")
def grid(rows: list[Measurement]) -> Grid:
    """That of the first graph, believed by rows of the two others."""
    own = [row for row in rows if row.setting.graph.fingerprint == rows[0].setting.graph.fingerprint]
    (found,) = held_out_grids(own, rows)
    return found


def worlds(grid: Grid, count: int, trials: float = 10.0) -> list[World]:
    random = np.random.default_rng(0)
    return [grid.world(np.arange(len(grid.configs)), BY_SPEED, random, trials) for _ in range(count)]


def by_truth(sign: float):
    """Returns the rule that tries what truly keeps the limits and is the best, or the worst of all."""

    def value(studies: Studies) -> np.ndarray:
        return sign * np.where(studies.keeps_truly(), studies.true_score(), -1e6)

    return whole_trials(value)


def test_to_know_the_truth_is_close_at_once_and_breaks_nothing(grid: Grid) -> None:
    drawn = worlds(grid, 12, trials=4.0)  # with many, all is tried in any order
    knowing, worst, own = (goals(rule, grid, drawn) for rule in (by_truth(1.0), by_truth(-1.0), baseline))
    assert (knowing.came_close == 1).all()
    assert (knowing.close_s <= 1.01 + 1e-9).all()
    assert (knowing.close_s <= worst.close_s).all()
    assert knowing.close_s.mean() < worst.close_s.mean()
    assert worst.broken.mean() > knowing.broken.mean()
    assert worst.regret.mean() >= knowing.regret.mean()
    for one in (knowing, worst, own):
        assert ((one.regret >= 0) & (one.regret <= 1)).all()
        assert ((one.broken >= 0) & (one.broken <= 1 + 1e-9)).all()
        assert (one.close_s <= 10.0 + 1e-9).all()


def test_a_regret_inside_the_noise_is_a_tie(grid: Grid) -> None:
    """Two configurations that differ by 2 % are equal where replicates scatter by more, and not where they don't."""
    (world,) = worlds(grid, 1, trials=0.1)  # no trial but the default's is affordable
    lost = 1 - 1.02 ** -world.weights[SPEED]
    for scatter, expected in ((0.0, lost), (0.2, 0.0)):
        truth = np.repeat(world.truth[:, :1], len(grid.configs), axis=1)
        truth[SPEED, 1] -= np.log2(1.02)
        limits = np.full(4, np.inf)
        alike = dataclasses.replace(world, truth=truth, measured=truth, play_off=truth, limits=limits)
        replicates = tuple(np.repeat(truth[:, [i]], 3, axis=1) for i in range(len(grid.configs)))
        for one in replicates:
            one[SPEED] += scatter * np.array([-1.0, 0.0, 1.0])
        own = dataclasses.replace(grid, replicates=replicates)
        assert goals(baseline, own, [alike]).regret[0] == pytest.approx(expected, abs=1e-9)


def told(grid: Grid, studies: Studies) -> list[FrozenTrial]:
    """Returns what a sampler is told of the first of `studies`."""
    values = SamplerValues(grid, SAMPLERS["Optuna TPE"], seed=0)
    return list(values._told(studies, 0, np.random.default_rng(0)))


def test_a_sampler_is_told_what_was_measured_and_else_what_is_believed(grid: Grid) -> None:
    studies = Studies(World.stack(worlds(grid, 1), len(grid.configs)))
    world = studies.world
    found = told(grid, studies)
    assert len(found) == len(grid.configs)
    assert found[0].value == pytest.approx(world.weights[0] @ world.measured[0, :, 0])
    assert found[0].constraints["accuracy"] == pytest.approx(world.measured[0, ACCURACY, 0] - world.limits[0, ACCURACY])
    believed = sorted(world.weights[0] @ studies.beliefs.mean[0, :, 1:])
    np.testing.assert_allclose(sorted(one.value for one in found[1:]), believed)
    assert ("memory" in found[0].constraints) == bool(np.isfinite(world.limits[0, MEMORY]))


def test_a_sampler_is_told_that_a_trial_failed(grid: Grid) -> None:
    (world,) = worlds(grid, 1)
    crashes, limits = world.crashes.copy(), world.limits.copy()
    crashes[2], limits[MEMORY] = True, world.measured[MEMORY, 1] - 0.01
    failing = dataclasses.replace(world, crashes=crashes, limits=limits)
    studies = Studies(World.stack([failing], len(grid.configs)))
    for candidate in (2, 1):
        studies.run(np.array([candidate * FIDELITIES + WHOLE]))
    assert studies.failed[0, 1:3].all()
    found = told(grid, studies)
    killed, crashed = found[1].constraints, found[2].constraints  # what was tried comes first, in the grid's order
    assert crashed["accuracy"] == pytest.approx(-limits[ACCURACY])
    assert killed["memory"] > 0
    assert {frozenset(one.constraints) for one in found} == {frozenset({"memory", "accuracy"})}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_tries_each_candidate_once_and_decides_by_its_seed(grid: Grid, name: str) -> None:
    drawn, tried = worlds(grid, 1, trials=2.5), []
    for _ in range(2):
        studies = Studies(World.stack(drawn, len(grid.configs)))
        rule = optuna_rules(grid, seed=3)[name]
        tried.append([int(step.candidate[0]) for step in follow(rule, studies)])
    assert tried[0] == tried[1]
    assert len(set(tried[0])) == len(tried[0]) >= 2


def test_an_untrained_network_is_neither_the_baseline_nor_another_one(grid: Grid) -> None:
    studies = Studies(World.stack(worlds(grid, 8), len(grid.configs)))
    first, again, other = (untrained(seed)(studies) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first != baseline(studies)).any()


@pytest.mark.slow
def test_a_table_has_every_rule_and_the_best_rival(grid: Grid) -> None:
    found = replay([grid], [], BY_SPEED, seeds=2)
    assert set(found) == {*rules([]), "untrained network", *SAMPLERS}
    assert all(isinstance(one, Goals) and one.regret.shape == (2,) for one in found.values())
    shown = lines(found)
    assert len(shown) == len(found) + 2
    assert "of the best rival" in shown[-1]
