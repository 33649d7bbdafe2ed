"""What is recommended without a trial, on the shipped grid and the rows of three graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a3gnn.limits import Limits
from a3gnn.measurement import Measurement
from a3gnn.objectives import Objectives, Priority
from a3gnn.profiling.store.jsonl import read_measurements, shipped_measurements
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.emulated.measured import MeasuredDefault, by_setting
from benchmarks.recommended import Recommended, Truth, line, recommended

GRID = Path(__file__).parents[2] / "benchmarks" / "results" / "grids" / "facebook_pages.jsonl.gz"


@pytest.fixture(scope="module")
def default() -> MeasuredDefault:
    (found,) = by_setting(list(read_measurements(GRID)))
    return found


@pytest.fixture(scope="module")
def truth(default: MeasuredDefault) -> Truth:
    return Truth.of(default)


def test_the_grid_is_of_no_graph_that_the_profiles_have(default: MeasuredDefault) -> None:
    graphs = {row.setting.graph.fingerprint for row in shipped_measurements()}
    assert default.rows[0].setting.graph.fingerprint not in graphs


def test_what_breaks_a_limit_has_no_score(truth: Truth) -> None:
    limit = int(np.median(truth.peaks))
    scores = truth.scores(Objectives(Limits(host_bytes=limit), Priority.parse("throughput"), has_device=False))
    np.testing.assert_array_equal(np.isfinite(scores), truth.peaks <= limit)


@pytest.mark.weekly  # a benchmark's, which a person runs
def test_shares_are_of_the_best_that_keeps_the_limits(default: MeasuredDefault, rows: list[Measurement]) -> None:
    fitted = Surrogate(seed=0).fit(rows)
    found = list(recommended(default, fitted, "memory"))
    assert len(found) == 5
    assert all(0 < one.default <= 1 or one.default == 0 for one in found)
    assert all(np.isnan(one.share) or 0 <= one.share <= 1 for one in found)


def test_a_line_counts_what_broke_a_limit_as_nothing_gained() -> None:
    shown = line("time", [Recommended(0.9, 0.5), Recommended(0.0, 0.5), Recommended(float("nan"), 0.5)])
    assert shown.split() == ["time", "3", "1", "50%", "45%", "0%", "50%"]
