"""How the peaks of trials that were stored vary."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.profiling.store.shipped import shipped_measurements
from benchmarks.trial_memory import Peaks, line, peaks_of, predicted


def test_defaults_that_trained_took_more_than_those_that_only_timed() -> None:
    found = peaks_of(shipped_measurements())
    both = [one for one in found.values() if len(one.trained) and len(one.timed)]
    assert len(both) >= 20
    more = np.median([np.median(one.trained) - np.median(one.timed) for one in both])
    assert more == pytest.approx(15, abs=1), "the constant of a3gnn_surrogate.memory"


def test_what_is_predicted_of_a_graph_explains_most_of_its_trials() -> None:
    every = shipped_measurements()
    rows = [row for row in every if row.setting.graph.name == "dblp"]
    r2, mean, median = map(float, predicted(rows, every).split())
    assert 0.4 < r2 < 0.96, "no better than the noise of trials"
    assert abs(mean) < 0.3
    assert 0 < median < 0.3


def test_a_line_tells_difference_noise_and_what_is_left_to_explain() -> None:
    timed = np.exp([0.0, 0.2])
    found = {
        ("g", "a"): Peaks(np.median(timed) + np.array([3.0]), timed),
        ("g", "b"): Peaks(np.exp([2.0]), np.array([])),
    }
    within = np.var([np.mean([0.0, 0.2, np.log(np.median(timed) + 3.0)]), 2.0], ddof=1)
    shown = line("here", found).split()
    noise = f"{np.sqrt(0.02):.1%}"
    assert shown == ["here", "1", "3.0", "3.0", "3.0", "1", noise, f"{within:.3f}", f"{1 - 0.02 / within:.2f}"]
