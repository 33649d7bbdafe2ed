from __future__ import annotations

import numpy as np
import pytest

from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn_surrogate.curve_ends import Sample
from benchmarks.curve_ends import as_baseline, cases, judged, power_law, report, samples


def curve(*quality: float) -> LearningCurve:
    return LearningCurve(tuple(10 * (i + 1) for i in range(len(quality))), quality, CurveEnd.BUDGET)


def test_a_power_law_is_found() -> None:
    law = [0.9 - 0.5 * (i + 1) ** -0.7 for i in range(16)]
    assert power_law(curve(*law[:4]), 160) == pytest.approx(law[-1], abs=0.002)
    assert power_law(curve(0.5, 0.4, 0.3), 100) == 0.5


def test_a_case_knows_only_its_first_part() -> None:
    whole = curve(*np.linspace(0.1, 0.8, 16))
    (case,) = cases([Sample("a", whole)], 0.25)
    assert case.known.batches == (10, 20, 30, 40)
    assert case.gain == pytest.approx(whole.val_accuracy[-1] - whole.val_accuracy[3])
    assert as_baseline(case) == max(case.known.val_accuracy)  # it is the baseline's own
    assert not cases([Sample("a", whole)], 0.15)


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
