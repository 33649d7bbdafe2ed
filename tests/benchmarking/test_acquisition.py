"""Worlds of the acquisition's environment made of shipped measurements and of what a surrogate believes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.measurement import Measurement
from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.studies import Studies
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, SPEED, WORK, World
from benchmarks.acquisition.compare import baseline, rules, run
from benchmarks.acquisition.replays import (
    SETTINGS_PER_KEY,
    Grid,
    ReplayWorlds,
    by_setting,
    held_out_grids,
    simulated_priors,
)
from tests.benchmarking.conftest import GRAPHS


@pytest.fixture(scope="module")
def grids(rows: list[Measurement]) -> list[Grid]:
    return held_out_grids(rows)


def test_a_grid_holds_what_was_measured(rows: list[Measurement], grids: list[Grid]) -> None:
    assert len(grids) == GRAPHS
    default = by_setting(rows)[0]
    grid = grids[0]
    assert grid.replicates[0].shape == (4, 3)  # the default is measured three times
    assert sum(one.shape[1] for one in grid.replicates) == len(default.rows)
    last = [row for row in default.rows if row.config != TrainConfig().canonical()][-1]
    assert last.metrics is not None
    figures = Figures.of(last.metrics, last.metrics.curve, default.reference)
    own = grid.replicates[-1][:, 0]
    assert own[SPEED] == pytest.approx(-np.log2(last.metrics.throughput_epochs_per_s))
    assert own[MEMORY] == pytest.approx(np.log2(last.metrics.peak_host_bytes))
    if figures.seconds_to_accuracy is not None:
        share = figures.seconds_to_accuracy / default.reference.budget_s
        assert own[SPEED] + own[WORK] == pytest.approx(np.log2(share))


def test_what_is_believed_of_a_graph_is_without_its_rows(rows: list[Measurement], grids: list[Grid]) -> None:
    """Twice as fast rows of a graph, the default's apart, change what was measured and not what was believed."""
    graph = rows[0].setting.graph.fingerprint
    altered = []
    for row in rows:
        if row.setting.graph.fingerprint == graph and row.config != TrainConfig().canonical():
            assert row.metrics is not None
            speed = 2 * row.metrics.throughput_epochs_per_s
            row = dataclasses.replace(row, outcome=dataclasses.replace(row.metrics, throughput_epochs_per_s=speed))
        altered.append(row)
    again = held_out_grids(altered)
    np.testing.assert_allclose(again[0].prior.mean[[SPEED, MEMORY]], grids[0].prior.mean[[SPEED, MEMORY]])
    np.testing.assert_allclose(again[0].replicates[1][SPEED], grids[0].replicates[1][SPEED] - 1)
    assert (again[1].prior.mean != grids[1].prior.mean).any()


def test_a_replay_draws_a_replicate_of_each(grids: list[Grid]) -> None:
    worlds = ReplayWorlds(grids[:1], num_candidates=20)
    random = np.random.default_rng(0)
    found = [worlds.draw(random) for _ in range(20)]
    default = grids[0].replicates[0]
    assert {world.measured[SPEED, 0] for world in found} == set(default[SPEED])
    for world in found:
        np.testing.assert_allclose(world.truth[:, 0], np.median(default, axis=1))
        assert not world.crashes.any()
        seen = ~np.isnan(world.early)
        assert (world.early >= world.measured[ACCURACY])[seen].all()
    few = ReplayWorlds(grids, num_candidates=5).draw(random)
    assert few.truth.shape == (4, 5)
    studies = Studies(World.stack([*found, few], 20))
    assert (studies.objective() <= np.where(studies.keeps_truly(), studies.true_score(), -np.inf).max(axis=1)).all()
    with pytest.raises(UsageError, match="at least one grid"):
        ReplayWorlds([], 4)


def test_what_failed_is_no_candidate_to_choose(rows: list[Measurement], grids: list[Grid]) -> None:
    failed = dataclasses.replace(grids[0], replicates=(*grids[0].replicates[:-1], np.empty((4, 0))))
    world = ReplayWorlds([failed], num_candidates=40).draw(np.random.default_rng(0))
    assert world.crashes.sum() == 1
    assert np.isfinite(world.truth).all()


def test_priors_are_of_every_setting_and_share_learning_keys(rows: list[Measurement]) -> None:
    priors = simulated_priors(rows, count=60)
    assert len(priors) == GRAPHS
    for prior in priors:
        count = prior.mean.shape[1]
        assert len(np.unique(prior.learning_points, axis=0)) < 2 * count / SETTINGS_PER_KEY + 2
        assert np.isfinite(prior.mean).all()
        assert (prior.noise > 0).all()
        assert prior.mean[ACCURACY].min() >= -1
        assert prior.curve_s > 0


def test_every_rule_ends_and_the_baseline_is_the_first(grids: list[Grid]) -> None:
    source, random = ReplayWorlds(grids, 20, Priority.parse("throughput")), np.random.default_rng(0)
    worlds = [source.draw(random) for _ in range(70)]
    found = {name: run(rule, worlds, 20) for name, rule in rules([]).items()}
    assert next(iter(rules([]).values())) is baseline
    for outcome in found.values():
        assert outcome.utility.shape == (70,)
        assert (outcome.regret > -1e-9).all()
        assert (outcome.failed <= 1 + 1e-9).all()
