"""Judging a policy that proposes configurations, with a tiny one and the analytic model."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import benchmarks.policy
from a3gnn.objectives import PRESETS
from a3gnn.profiling.store.jsonl import read_measurements, shipped_measurements
from a3gnn.setting import Setting
from a3gnn_envs.policy import Policy
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.policy import cases, judge, judged, settings_of, situation, situations, split
from benchmarks.policy_training import train

GRID = Path(__file__).parents[2] / "benchmarks" / "results" / "grids" / "facebook_pages.jsonl.gz"


@pytest.fixture(scope="module")
def analytic() -> Surrogate:
    return Surrogate("none").fit([])


@pytest.fixture(scope="module")
def grid() -> Setting:
    (setting,) = settings_of(list(read_measurements(GRID)))
    return setting


@pytest.fixture(scope="module")
def policy(grid: Setting, analytic: Surrogate) -> Policy:
    return train([situation(grid, analytic)], 32, seed=0, num_envs=32)[0]


def test_judged_graphs_are_not_trained_on(grid: Setting) -> None:
    rows = shipped_measurements()
    gridded = dataclasses.replace(grid, graph=rows[0].setting.graph)
    seen, unseen = split(rows, [grid, gridded])
    assert unseen[:2] == [grid, gridded]
    trained = {row.setting.graph.fingerprint for row in seen}
    assert not trained & {one.graph.fingerprint for one in unseen}
    assert len(trained) + len(unseen) - 1 == len({row.setting.graph.fingerprint for row in rows})


def test_training_has_the_settings_and_imagined_ones_without_rows_of_their_own(
    grid: Setting, analytic: Surrogate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks.policy, "_IMAGINED", 5)
    found = situations([grid], analytic, seed=0)
    assert len(found) == 6
    assert grid.graph.fingerprint not in {one.setting.graph.fingerprint for one in found}


def test_only_rows_that_keep_the_limits_count(grid: Setting, analytic: Surrogate) -> None:
    _, case = cases(grid, analytic)  # a quarter of random configurations keeps this limit on memory
    rows = case.situation.space.sample(200, seed=3)
    found = judged(case, "throughput", rows)
    goal, prediction = case.objectives("throughput"), case.predict(rows)
    kept = (prediction.column("peak_host_bytes") <= (case.limits.host_bytes or 0)) & (
        prediction.column("val_accuracy") >= (case.limits.least_accuracy or 0)
    )
    assert 0 < kept.mean() == found.kept < 0.5
    assert found.gain == pytest.approx(goal.score(prediction)[kept].max() - goal.score(case.baseline)[0])
    assert judged(case, "throughput", rows[~kept]).gain == -np.inf


@pytest.mark.weekly  # a benchmark's, which a person runs
def test_the_table_has_every_priority_and_way(
    grid: Setting, analytic: Surrogate, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("STARTS", 100), ("_ROWS", 32), ("_LIMITS", ("default",))):
        monkeypatch.setattr(benchmarks.policy, name, value)
    table = judge(policy, [grid, grid], analytic)
    assert set(table) == set(PRESETS)
    for ways in table.values():
        assert ways["ceiling"]["behind_ceiling"]["mean"] == 0
        for one in ways.values():
            assert one["gain"]["standard_error"] == pytest.approx(0)  # one graph, twice
