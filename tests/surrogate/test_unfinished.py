"""How curves that ended early are expected to go on."""

from __future__ import annotations

import math

import pytest

from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn_surrogate.known_curves import expected_accuracy, expected_batches


def curve(*points: tuple[int, float]) -> LearningCurve:
    batches, accuracies = zip(*points, strict=True)
    return LearningCurve(batches, accuracies, CurveEnd.SLOWER)


DEFAULT = curve((5, 0.5), (10, 0.7), (15, 0.8), (20, 0.75), (25, 0.9))


def test_what_learns_half_as_fast_takes_twice_as_long() -> None:
    slow = curve((10, 0.5), (20, 0.7))
    assert expected_batches(slow, DEFAULT, 0.8) == 30
    assert expected_batches(slow, DEFAULT, 0.85) == pytest.approx(40 + (0.85 - 0.8) / (0.9 - 0.8) * 10)
    assert expected_accuracy(slow, DEFAULT, 30) == pytest.approx(0.8)
    assert expected_accuracy(slow, DEFAULT, 1_000) == 0.9  # no more than the default is known to reach


def test_the_best_so_far_counts_on_both_sides() -> None:
    fallen = curve((10, 0.7), (20, 0.6))
    assert expected_batches(fallen, DEFAULT, 0.8) == 30
    assert expected_accuracy(fallen, DEFAULT, 20) == pytest.approx(0.7)


def test_a_point_that_is_still_to_come_is_the_least() -> None:
    close = curve((10, 0.5), (20, 0.799))
    assert expected_batches(close, DEFAULT, 0.8) == 30


def test_between_the_points_and_before_the_first_the_default_learns_evenly() -> None:
    assert expected_batches(curve((4, 0.25)), DEFAULT, 0.5) == pytest.approx(8)
    assert expected_batches(curve((4, 0.0)), DEFAULT, 0.5) == math.inf


def test_what_is_above_the_default_stays_there() -> None:
    better = curve((5, 0.95))
    assert expected_accuracy(better, DEFAULT, 50) == 0.95
