"""How far a trial trains its curve, and where it has lost; by formulas."""

import dataclasses

import pytest

from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import CurvePlan, TrialRequest
from a3gnn.task import Task
from a3gnn.tuning.run.plans import timing_plan, trial_plan, whole_plan
from a3gnn.tuning.study.trial import Proposal
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS

NEXT = Proposal("best", TWO_PARTS)
FALLING = Task(lr_schedule="cosine", lr_epochs=7)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"budget": 80.0}, CurvePlan(10.0, until_plateau=True)),
        ({"budget": 8.0}, CurvePlan(2.0, until_plateau=True)),
        ({"budget": 5}, CurvePlan(60.0, until_plateau=True)),
        ({"accuracy_epochs": 3}, CurvePlan(60.0, most_epochs=3)),
        ({"task": FALLING}, CurvePlan(60.0, most_epochs=7)),
        ({"task": FALLING, "accuracy_epochs": 3}, CurvePlan(60.0, most_epochs=3)),
        ({"target_accuracy": 88.0}, CurvePlan(60.0, until_plateau=True, target=0.88)),
    ],
)
def test_the_default_is_trained_until_it_stops_rising_or_for_an_eighth_of_the_time(
    measured, options: dict, expected: CurvePlan
) -> None:
    history = measured(**options).history
    assert trial_plan(Proposal("default", DEFAULT), history).curve == expected


def test_others_are_trained_as_long_as_the_default(measured) -> None:
    history = measured().history
    assert history.reference.budget_s == pytest.approx(30.0)  # twelve points: 300 mini-batches, ten a second
    assert trial_plan(NEXT, history).curve.most_seconds == history.reference.budget_s
    assert whole_plan(history).curve == CurvePlan(history.reference.budget_s, whole=True)
    assert timing_plan(history).curve is None


@pytest.mark.parametrize(
    ("priority", "counts"),
    [("time", False), ("throughput", False), ("memory", False), ("accuracy", True), ("balanced", True)],
)
def test_a_trial_ends_at_the_target_where_accuracy_is_a_limit_alone(measured, priority: str, counts: bool) -> None:
    found = measured(TWO_PARTS, priority=Priority.parse(priority))
    history = found.history
    assert trial_plan(NEXT, history).curve.target == (None if counts else history.reference.target)
    judged = history.measured()[1]
    assert (judged.metrics.curve.ended, judged.figures.complete) == (
        (CurveEnd.BUDGET, True) if counts else (CurveEnd.TARGET, False)
    )


def test_hurdles_are_the_target_less_what_measured_curves_gained_later(measured, formulas) -> None:
    def late(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        """By half of the default's six seconds all have 0.7, by three quarters 0.8, and in the end 0.9."""
        counts = (5, 10, *range(15, 125, 15))
        seconds = [count / 10 for count in counts]
        reached = tuple(0.7 if s <= 6 * 0.5 else 0.8 if s <= 6 * 0.75 else 0.9 for s in seconds)
        return dataclasses.replace(
            metrics, throughput_epochs_per_s=1.0, curve=LearningCurve(counts, reached, CurveEnd.BUDGET)
        )

    options = {"executor": formulas(late), "accuracy_epochs": 6, "priority": Priority.parse("accuracy")}
    assert trial_plan(NEXT, measured(TWO_PARTS, **options).history).curve.hurdles == ()  # two gains do not tell
    history = measured(TWO_PARTS, FOUR_PARTS, **options).history
    target = history.reference.target
    assert target == pytest.approx(0.875)
    hurdles = trial_plan(NEXT, history).curve.hurdles
    assert [hurdle.seconds for hurdle in hurdles] == pytest.approx([3.0, 4.5])
    assert [hurdle.val_accuracy for hurdle in hurdles] == pytest.approx(
        [target - 1.5 * 0.2 - 0.01, target - 1.5 * 0.1 - 0.01]
    )


def test_a_curve_that_no_gain_brings_to_the_target_is_ended(measured, formulas) -> None:
    def poor(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config.num_partitions != 8:
            return metrics
        lower = tuple(0.5 * value for value in metrics.curve.val_accuracy)
        return dataclasses.replace(metrics, curve=dataclasses.replace(metrics.curve, val_accuracy=lower))

    eight = dataclasses.replace(TWO_PARTS, num_partitions=8).canonical()
    options = {"priority": Priority.parse("accuracy"), "max_accuracy_drop": 10.0}
    history = measured(TWO_PARTS, FOUR_PARTS, eight, executor=formulas(poor), **options).history
    lost = history.measured()[-1]
    assert lost.metrics.curve.ended is CurveEnd.LOST
    assert lost.metrics.pace.seconds(lost.metrics.curve.trained) == pytest.approx(0.5 * history.reference.budget_s)
    assert [one.trial.measurement.config for one in history.eligible()] == [DEFAULT, TWO_PARTS, FOUR_PARTS]


@pytest.mark.parametrize(("reason", "factor"), [("best", 1.1), ("front", 2.0), ("closest", 2.0)])
def test_where_seconds_count_a_trial_must_beat_the_best_or_not_be_far_slower(
    measured, reason: str, factor: float
) -> None:
    history = measured(MODE1, priority=Priority.parse("time")).history
    best = history.best()
    assert best.trial.measurement.config == MODE1
    hurdles = trial_plan(Proposal(reason, TWO_PARTS), history).curve.hurdles
    assert [tuple(hurdle) for hurdle in hurdles] == [
        (pytest.approx(factor * best.figures.seconds_to_accuracy), history.reference.target, CurveEnd.SLOWER)
    ]
    assert trial_plan(Proposal(reason, TWO_PARTS), history).curve.least_throughput == 0


@pytest.mark.parametrize(("predicted", "expected"), [(0.1, 0.5), (0.4, 0.8), (1.0, 1.1)])
def test_what_disappoints_is_given_up_where_it_is_not_quick_all_the_same(
    measured, predicted: float, expected: float
) -> None:
    history = measured(MODE1, priority=Priority.parse("time")).history
    best_s = history.best().figures.seconds_to_accuracy
    plans = [trial_plan(Proposal(why, TWO_PARTS), history, predicted_s=predicted * best_s) for why in ("best", "front")]
    assert [plan.curve.hurdles[0].seconds / best_s for plan in plans] == pytest.approx([expected, 2.0])


@pytest.mark.parametrize(
    ("priority", "reason", "share"),
    [
        ("throughput", "best", 2 ** -(0.1 / 0.9)),
        ("throughput", "front", 0.0),
        ("memory", "best", 0.0),
        ("balanced", "best", 0.0),
        ("2,1,0.5", "best", 2 ** -(1.5 / 2)),
    ],
)
def test_where_throughput_counts_the_slower_ones_are_not_trained(
    measured, priority: str, reason: str, share: float
) -> None:
    history = measured(MODE1, priority=Priority.parse(priority)).history
    least = trial_plan(Proposal(reason, TWO_PARTS), history).curve.least_throughput
    assert least == pytest.approx(share * history.best().figures.throughput_epochs_per_s)


def test_what_was_given_up_for_its_speed_is_not_known_to_miss_the_least_accuracy(measured, formulas) -> None:
    def poor(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config != TWO_PARTS:
            return metrics
        lower = tuple(0.5 * value for value in metrics.curve.val_accuracy)
        return dataclasses.replace(metrics, curve=dataclasses.replace(metrics.curve, val_accuracy=lower))

    history = measured(MODE1, TWO_PARTS, executor=formulas(poor), priority=Priority.parse("time")).history
    slower = history.measured()[-1]
    assert slower.metrics.curve.ended is CurveEnd.SLOWER
    assert not slower.figures.complete
    assert history.objectives.limits.broken_by(slower.figures)
    assert history.breaches(slower) == ()
    assert slower not in history.eligible()
