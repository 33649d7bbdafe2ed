"""When a curve reaches an accuracy, keeps it, falls from it, and has stopped improving."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.learning_curve import (
    FOLLOWING,
    LEAST_POINTS,
    NO_CURVE,
    CurveEnd,
    LearningCurve,
    next_point,
)


def curve_of(*accuracies: float, first: int = 10) -> LearningCurve:
    """Returns a curve of these points, at the counts at which a training evaluates them."""
    curve = NO_CURVE
    for accuracy in accuracies:
        curve = curve.with_point(next_point(curve.trained, first), accuracy)
    return curve


def test_a_touch_does_not_count_if_the_next_points_are_lower_in_the_mean() -> None:
    assert FOLLOWING == 3
    spike = curve_of(0.5, 0.9, 0.6, 0.6, 0.9, 0.9, 0.9, 0.9)
    assert spike.first_reaching(0.8) == spike.batches[4]
    assert spike.first_reaching(0.69) == spike.batches[1]  # the mean of 0.6, 0.6 and 0.9 is 0.7
    assert spike.first_reaching(0.95) is None


def test_fewer_points_decide_as_long_as_there_are_no_more() -> None:
    """So curves of older versions, which end at their target, have reached it."""
    assert curve_of(0.5, 0.9).first_reaching(0.8) == 20
    assert curve_of(0.5, 0.9, 0.6).first_reaching(0.8) is None
    assert curve_of(0.5, 0.9, 0.6, 0.9, 0.95).first_reaching(0.8) == 20


def test_a_target_is_settled_once_all_points_that_decide_are_known() -> None:
    rising = (0.5, 0.9, 0.9, 0.9, 0.9)
    assert [curve_of(*rising[:points]).has_settled_at(0.8) for points in range(6)] == [False] * 5 + [True]
    assert not curve_of(0.5, 0.9, 0.6, 0.6, 0.6, 0.7).has_settled_at(0.8)
    assert not NO_CURVE.has_settled_at(-1.0)


def test_what_falls_from_a_target_touched_it_and_kept_it_nowhere() -> None:
    falls = curve_of(0.5, 0.9, 0.6, 0.6, 0.6, 0.7)
    assert falls.fell_from(0.8)
    assert falls.best_held() == pytest.approx(0.7)  # the last point has no later one
    assert not falls.fell_from(0.65)
    assert not falls.fell_from(0.95)  # it never touched it


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0, 1))
def test_the_best_that_is_kept_is_the_highest_that_is_reached(accuracies: list[float], accuracy: float) -> None:
    curve = curve_of(*accuracies)
    assert (curve.first_reaching(accuracy) is not None) == (curve.best_held() >= accuracy)
    assert curve.fell_from(accuracy) == (max(accuracies, default=-1) >= accuracy and curve.best_held() < accuracy)
    if accuracies:
        assert curve.first_reaching(curve.best_held()) is not None
        assert curve.best_held() <= max(accuracies)


@given(st.floats(0, 1), st.integers(1, 12))
def test_a_curve_keeps_exactly_the_accuracy_that_it_stays_at(accuracy: float, points: int) -> None:
    assert curve_of(*[accuracy] * points).best_held() == accuracy


@pytest.mark.parametrize(
    ("points", "best", "stopped"),
    [
        (LEAST_POINTS, 0, True),
        (LEAST_POINTS - 1, 0, False),  # too few points
        (LEAST_POINTS, 13, True),  # at 720 of 1080 mini-batches: exactly two thirds
        (LEAST_POINTS, 14, False),  # at 780
        (LEAST_POINTS + 1, 14, False),  # 780 of 1147
        (LEAST_POINTS + 2, 14, True),  # 780 of 1218
    ],
)
def test_a_curve_has_stopped_improving_without_a_better_point_in_its_last_third(
    points: int, best: int, stopped: bool
) -> None:
    curve = curve_of(*[0.9 if place == best else 0.8 for place in range(points)], first=20)
    assert curve.has_stopped_improving() is stopped
    assert curve.improves_at_its_end() is (curve.trained * 2 / 3 < 780 and best == 14)


def test_a_curve_has_not_stopped_within_200_mini_batches_of_its_best_point() -> None:
    assert not curve_of(*[0.9 if place == 13 else 0.8 for place in range(LEAST_POINTS)]).has_stopped_improving()
    assert curve_of(
        *[0.9 if place == 12 else 0.8 for place in range(LEAST_POINTS)]
    ).has_stopped_improving()  # 330 of 540


def test_an_equal_point_is_not_better() -> None:
    assert curve_of(*[0.8] * LEAST_POINTS).has_stopped_improving()


@given(st.lists(st.sampled_from([0.1, 0.5, 0.6, 0.7]), min_size=1, max_size=60))
def test_no_curve_stops_before_its_soonest_stop(accuracies: list[float]) -> None:
    whole = curve_of(*accuracies)
    stop = next((n for n in range(1, len(accuracies) + 1) if curve_of(*accuracies[:n]).has_stopped_improving()), None)
    for points in range(1, len(accuracies) if stop is None else stop):
        part = curve_of(*accuracies[:points])
        assert part.soonest_stop() > part.trained
        if stop is not None:
            assert part.soonest_stop() <= whole.batches[stop - 1] + 1e-6


def test_ends_are_text_in_files() -> None:
    curve = LearningCurve((1, 2), (0.5, 0.6), CurveEnd.PLATEAU)
    assert LearningCurve.from_dict(curve.to_dict()) == curve


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 30))
def test_what_a_beginning_keeps_however_far_it_goes_on_is_kept_at_every_length(found: list[float], points: int) -> None:
    longer = curve_of(*found)
    cut = longer.first(points)
    kept = cut.best_held_in(longer)
    assert kept <= cut.best_held()
    for end in range(points, len(found) + 1):
        assert longer.first(end).first_reaching(kept) is not None
    assert cut.best_held_in(cut) == cut.best_held()
