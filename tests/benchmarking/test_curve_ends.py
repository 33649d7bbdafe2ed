from __future__ import annotations

import numpy as np
import pytest

from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.profiling.store.jsonl import shipped_measurements
from benchmarks.curve_ends import (
    Miss,
    Stop,
    as_baseline,
    cases,
    factor,
    judged,
    late,
    later_gains,
    misses,
    power_law,
    report,
    stop_lines,
    stopped_before,
    stops,
)
from benchmarks.curve_fits import Sample, samples


def curve(*quality: float) -> LearningCurve:
    return LearningCurve(tuple(10 * (i + 1) for i in range(len(quality))), quality, CurveEnd.BUDGET)


def test_a_power_law_is_found() -> None:
    law = [0.9 - 0.5 * (i + 1) ** -0.7 for i in range(16)]
    assert power_law(curve(*law[:4]), 160) == pytest.approx(law[-1], abs=0.002)
    assert power_law(curve(0.5, 0.4, 0.3), 100) == pytest.approx(0.5)


def test_a_case_knows_only_its_first_part() -> None:
    whole = curve(*np.linspace(0.1, 0.8, 16))
    (case,) = cases([Sample("a", whole)], 0.25)
    assert case.known.batches == (10, 20, 30, 40)
    assert case.gain == pytest.approx(whole.val_accuracy[-1] - whole.val_accuracy[3])
    assert as_baseline(case) == max(case.known.val_accuracy)  # it is the baseline's own
    assert not cases([Sample("a", whole)], 0.15)


@pytest.mark.weekly  # a benchmark's, which a person runs
def test_the_shipped_curves_are_judged() -> None:
    curves = samples(shipped_measurements())
    assert len({sample.graph for sample in curves}) > 20
    few = list(dict.fromkeys(sample.graph for sample in curves))[:8]
    found = judged([sample for sample in curves if sample.graph in few], 0.5)
    ours, stays = found["by other curves and the baseline's"], found["stays as it is"]
    assert len(ours) == len(stays) > 2
    assert not stays[0][1].size
    assert 0.5 <= np.mean(np.concatenate([held for _, held, _ in ours])) <= 1
    lines = report(found)
    assert lines[2].startswith("| stays as it is | ")
    assert sum(line.startswith("less ") for line in lines) == 5


def test_what_a_curve_gains_after_it_was_no_better() -> None:
    late = curve(*[0.5] * 30, *[0.6] * 20)
    assert later_gains([Sample("a", late)], 0) == [pytest.approx(10.0)]
    assert later_gains([Sample("a", late)], 400) == []  # it is better before that
    assert later_gains([Sample("a", curve(*[0.5] * 22))], 0) == []  # not trained on


def test_curves_that_were_cut_count_until_then() -> None:
    """Of four, one stops in time, one was cut before that, and two go on: 1 - 2/3."""
    found = [Stop(late, 0.0, stopped, 1.0) for late, stopped in ((0.2, False), (0.5, True), (1.5, True), (2.0, False))]
    assert stopped_before(found) == pytest.approx(1 / 3)
    assert stopped_before([one._replace(weight=2.0) for one in found]) == pytest.approx(1 / 3)


@pytest.mark.slow
def test_stops_of_the_shipped_curves_are_judged() -> None:
    found = stops(samples(shipped_measurements()))
    assert abs(stopped_before(found["by other curves"]) - 0.5) < abs(
        stopped_before(found["2.5 times the mini-batches"]) - 0.5
    )
    assert len(stop_lines(found)) == 2 + len(found)


def test_misses_are_those_of_the_first_parts() -> None:
    """A curve at half the baseline's pace has at its points 7 and 15 what the baseline's has at 4 and 8."""
    rising = np.linspace(0.1, 0.9, 16)
    slow = curve(*np.interp(np.arange(16) / 2, np.arange(16), rising))
    found = misses([Sample("a", slow, curve(*rising))])
    assert [(one.reached, one.ratio) for one in found] == [(True, 3 / 2), (True, 7 / 4), (True, 15 / 8)]
    assert all(one.expected > 1 for one in found)
    assert not misses([Sample("a", curve(*rising), slow), Sample("a", slow)])  # in time; without a baseline


def test_the_factor_of_late_curves_counts_those_that_never_reach_it() -> None:
    spread = np.exp(np.random.default_rng(0).normal(0, 0.3, 400))
    true = [Miss(float(2 * ratio * 1.7), True, 2.0, "a") for ratio in spread]
    assert factor(true) == pytest.approx(1.7, rel=0.05)
    cut = [one if one.ratio < 3 else one._replace(ratio=3.0, reached=False) for one in true]
    assert factor(cut) == pytest.approx(1.7, rel=0.05)
    assert stopped_before(late(cut)["as the baseline"]) == pytest.approx(np.mean(2 * spread * 1.7 < 2), abs=0.01)


def test_late_curves_of_the_profiles_are_expected_in_the_middle() -> None:
    found = late(misses(samples(shipped_measurements())))
    before = {rule: stopped_before(of_parts) for rule, of_parts in found.items()}
    assert list(before) == sorted(before, key=lambda rule: -abs(before[rule] - 0.5))
