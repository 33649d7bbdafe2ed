"""Where a learning curve ends: each rule alone, and that a cut is what training under the rules would have given."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.learning_curve import NO_CURVE, CurveEnd, LearningCurve, Pace, next_point
from a3gnn.profiling.request import CurvePlan, CurveRules, Race
from a3gnn_surrogate.curve_ends import CurveEnds

#: Ten mini-batches are an epoch; the first is done after 2 + 0.5 s.
PACE = Pace(setup_s=2.0, batches_per_s=2.0)
#: Predicts that every curve gains .03 to .05 more (gains are predicted as logarithms, above .003).
GAINS = CurveEnds((0.0,) * 13, math.log(0.043), (0.0,), ((math.log(33 / 43),), (0.0,), (math.log(53 / 43),)))


def rules(**plan: object) -> CurveRules:
    return CurveRules(CurvePlan(**({"most_seconds": 1e9} | plan)), PACE, batches_per_epoch=10)  # type: ignore[arg-type]


def curve_of(*accuracies: float, first: int = 4) -> LearningCurve:
    return LearningCurve(tuple(first * (i + 1) for i in range(len(accuracies))), accuracies, CurveEnd.BUDGET)


@pytest.mark.parametrize(
    ("due", "seconds", "ended"), [(4, 4.0, None), (5, 4.0, CurveEnd.BUDGET), (1, 2.0, CurveEnd.BUDGET)]
)
def test_a_point_is_trained_for_if_it_lies_within_the_seconds(due: int, seconds: float, ended: CurveEnd | None) -> None:
    assert rules(most_seconds=seconds).end(NO_CURVE, due) is ended


@pytest.mark.parametrize(("due", "ended"), [(30, None), (31, CurveEnd.BUDGET)])
def test_epochs_end_it(due: int, ended: CurveEnd | None) -> None:
    assert rules(most_epochs=3).end(curve_of(0.1), due) is ended


@pytest.mark.parametrize("reference", [{"most_epochs": 3}, {"until_plateau": True}, {"whole": True}])
def test_what_others_refer_to_and_what_is_tested_has_a_point_however_short_the_time(reference: dict) -> None:
    short = rules(most_seconds=2.1, **reference)
    assert short.end(NO_CURVE, 31) is None
    assert short.end(curve_of(0.1), 31) is CurveEnd.BUDGET


@pytest.mark.parametrize(("target", "ended"), [(0.5, CurveEnd.TARGET), (0.51, None), (None, None)])
def test_a_target_ends_it_once_three_points_kept_it(target: float | None, ended: CurveEnd | None) -> None:
    assert rules(target=target).end(curve_of(0.1, 0.5, 0.6, 0.4, 0.5), 24) is ended
    assert rules(target=target).end(curve_of(0.1, 0.5, 0.6, 0.4), 20) is None
    assert rules(target=target).end(curve_of(0.1, 0.5, 0.2, 0.2, 0.2), 24) is None


def test_a_plateau_ends_it_where_that_was_asked_for() -> None:
    flat = curve_of(*[0.5] * 20, first=12)
    assert rules(until_plateau=True).end(flat, 252) is CurveEnd.PLATEAU
    assert rules().end(flat, 252) is None
    assert rules(until_plateau=True).end(curve_of(*[0.5] * 19, first=12), 240) is None
    rising = curve_of(*[0.01 * i for i in range(20)], first=12)
    assert rules(until_plateau=True).end(rising, 252) is None
    assert rules(until_plateau=True, least=0.5).end(flat, 252) is CurveEnd.PLATEAU
    assert rules(until_plateau=True, least=0.51).end(flat, 252) is None


def test_a_curve_goes_on_as_long_as_it_can_stop_improving_within_the_longer_seconds() -> None:
    # Two mini-batches a second after two seconds of set-up: 400 and 1360 mini-batches. The twentieth point is at 867.
    plan = {"until_plateau": True, "most_seconds": 202.0, "plateau_seconds": 682.0}

    def end(accuracies: list[float], first: int = 16, **other: object) -> tuple[int, CurveEnd | None]:
        """Returns where and why a training of this curve ends."""
        curve, asked = NO_CURVE, rules(**(plan | other))
        for accuracy in accuracies:
            if (ended := asked.end(curve, due := next_point(curve.trained, first))) is not None:
                return curve.trained, ended
            curve = curve.with_point(due, accuracy)
        return curve.trained, None

    rising = [0.01 * i for i in range(40)]
    assert end(rising) == (921, CurveEnd.BUDGET)  # the best point is after two thirds of 1360
    assert end(rising, most_seconds=602.0) == (1171, CurveEnd.BUDGET)
    assert end([0.9, *[0.5] * 39]) == (867, CurveEnd.PLATEAU)
    assert end([*rising[:15], *[0.05] * 25]) == (978, CurveEnd.PLATEAU)  # the best point is at 624
    assert end(rising, first=32) == (384, CurveEnd.BUDGET)  # twenty points do not fit


@pytest.mark.parametrize(
    ("race", "ended"),
    [
        (Race(0.5, 6.0), CurveEnd.SLOWER),  # the point at 8 mini-batches is at 6 s, and has 0.4
        (Race(0.4, 6.0), None),
        (Race(0.5, 7.9), CurveEnd.SLOWER),  # 0.6 is reached at 8 s
        (Race(0.5, 8.0), None),
        (Race(0.9, 9.9), CurveEnd.SLOWER),  # the next point is at 10 s
        (Race(0.9, 10.0), None),
    ],
)
def test_a_race_is_lost_once_the_soonest_point_at_the_accuracy_is_after_its_seconds(
    race: Race, ended: CurveEnd | None
) -> None:
    assert rules(race=race).end(curve_of(0.3, 0.4, 0.6), 16) is ended


def test_a_race_is_not_lost_before_the_first_point() -> None:
    assert rules(race=Race(0.5, 1.0)).end(NO_CURVE, 4) is None
    assert rules(race=Race(0.5, 1.0)).end(curve_of(0.4), 8) is CurveEnd.SLOWER


def test_a_curve_is_given_up_once_its_predicted_end_is_below_the_least_accuracy() -> None:
    six, five = curve_of(*[0.5] * 6), curve_of(*[0.5] * 5)
    assert rules(race=Race(0.551, ends=GAINS)).end(six, 28) is CurveEnd.LOST  # at most 0.55 is predicted
    assert rules(race=Race(0.549, ends=GAINS)).end(six, 28) is None
    assert rules(race=Race(0.551)).end(six, 28) is None
    assert rules(race=Race(0.551, ends=GAINS)).end(five, 24) is None  # too few points
    assert rules(race=Race(0.551, ends=GAINS), most_seconds=14.0).end(six, 28) is CurveEnd.BUDGET  # it is at its end


def test_a_configuration_that_is_too_slow_is_out_before_any_point() -> None:
    assert rules(least_throughput=0.2).end(NO_CURVE, 4) is None
    slow = rules(least_throughput=0.21)
    assert slow.end(NO_CURVE, 4) is CurveEnd.SLOWER
    assert slow.cut(curve_of(0.5, 0.6), 4) == dataclasses.replace(NO_CURVE, ended=CurveEnd.SLOWER)


@given(
    accuracies=st.lists(st.sampled_from([0.0, 0.2, 0.21, 0.4, 0.6, 0.8]), min_size=40, max_size=40),
    seconds=st.floats(1, 40),
    epochs=st.none() | st.integers(1, 20),
    target=st.none() | st.sampled_from([0.4, 0.8]),
    plateau=st.booleans(),
    longer=st.none() | st.floats(1, 60),
    race=st.none()
    | st.builds(Race, st.sampled_from([0.1, 0.5, 0.9]), st.none() | st.floats(1, 40), st.sampled_from([None, GAINS])),
    first=st.integers(1, 5),
    known=st.integers(0, 40),
)
def test_a_cut_is_what_training_would_have_given(
    accuracies: list[float],
    seconds: float,
    epochs: int | None,
    target: float | None,
    plateau: bool,
    longer: float | None,
    race: Race | None,
    first: int,
    known: int,
) -> None:
    asked = rules(
        most_seconds=seconds,
        most_epochs=epochs,
        target=target,
        until_plateau=plateau,
        plateau_seconds=longer,
        race=race,
    )
    trained = NO_CURVE
    while (ended := asked.end(trained, due := next_point(trained.trained, first))) is None and len(
        trained.batches
    ) < 40:
        trained = trained.with_point(due, accuracies[len(trained.batches)])
    whole = NO_CURVE
    for accuracy in accuracies[:known]:
        whole = whole.with_point(next_point(whole.trained, first), accuracy)
    if ended is None or known < len(trained.batches):
        assert asked.cut(whole, first) is None
    else:
        assert asked.cut(whole, first) == dataclasses.replace(trained, ended=ended)


def test_nothing_reaches_a_target_before_its_first_point() -> None:
    worse_than_guessing = rules(target=-2.0, until_plateau=True)  # an error of three times the spread of the values
    assert worse_than_guessing.end(NO_CURVE, 4) is None
    assert worse_than_guessing.end(curve_of(-1.5, -1.5, -1.5), 16) is None
    assert worse_than_guessing.end(curve_of(-1.5, -1.5, -1.5, -1.5), 20) is CurveEnd.TARGET
