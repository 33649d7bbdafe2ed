"""How far a trial trains its curve, and where it has lost; by formulas."""

import dataclasses

import pytest

from a3gnn.figures import SECONDS_AGAIN
from a3gnn.learning_curve import CurveEnd
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import CurvePlan, Race, TrialRequest
from a3gnn.task import Task
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import fit_surrogate
from a3gnn.tuning.run.plans import end_plan, timing_plan, trial_plan, whole_plan
from a3gnn.tuning.study.trial import Proposal
from a3gnn_surrogate.curve_ends import CurveEnds
from tests.tuning.measured import DEFAULT, MODE1, TWO_PARTS
from tests.tuning.verify.test_ends import rising

NEXT = Proposal("best", TWO_PARTS)
FALLING = Task(lr_schedule="cosine", lr_epochs=7)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"budget": 96.0}, CurvePlan(12.0, until_plateau=True, plateau_seconds=32.0, tests=True)),
        ({"budget": 9.0}, CurvePlan(2.0, until_plateau=True, plateau_seconds=3.0, tests=True)),
        ({"budget": 3.0}, CurvePlan(2.0, until_plateau=True, plateau_seconds=2.0, tests=True)),
        ({"budget": 5}, CurvePlan(60.0, until_plateau=True, plateau_seconds=160.0, tests=True)),
        ({"accuracy_epochs": 3}, CurvePlan(160.0, most_epochs=3, tests=True)),
        ({"task": FALLING}, CurvePlan(160.0, most_epochs=7, tests=True)),
        ({"task": FALLING, "accuracy_epochs": 3}, CurvePlan(160.0, most_epochs=3, tests=True)),
        ({"target_accuracy": 88.0}, CurvePlan(160.0, until_plateau=True, target=0.88, tests=True)),
    ],
)
def test_the_default_is_trained_until_it_stops_improving_or_for_its_share_of_the_time(
    measured, options: dict, expected: CurvePlan
) -> None:
    history = measured(**options).history
    assert trial_plan(Proposal("default", DEFAULT), history).curve == expected


def test_others_are_trained_as_long_as_the_default(measured) -> None:
    history = measured().history
    assert history.reference.budget_s == pytest.approx(54.1)  # twenty points: 541 mini-batches, ten a second
    assert trial_plan(NEXT, history).curve.most_seconds == history.reference.budget_s
    reference = history.reference
    assert whole_plan(history, DEFAULT).curve == CurvePlan(
        reference.budget_s, until_plateau=True, least=reference.target, whole=True, tests=True
    )
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


@pytest.mark.parametrize("options", [{"priority": Priority.parse("accuracy")}, {"accuracy_epochs": 3}])
def test_a_whole_training_takes_all_the_seconds_if_accuracy_counts_or_epochs_are_given(measured, options: dict) -> None:
    history = measured(**options).history
    curve = whole_plan(history, DEFAULT).curve
    assert (curve.most_seconds, curve.until_plateau) == (history.reference.budget_s, False)


def test_a_trial_has_twice_the_time_of_its_training(measured) -> None:
    assert trial_plan(Proposal("default", DEFAULT), measured(budget=9000.0).history).timeout_s == 6000.0
    assert trial_plan(Proposal("default", DEFAULT), measured(budget=90.0).history).timeout_s == 60.0
    assert end_plan(measured().history, 400.0).timeout_s == 800.0


def test_a_trial_is_given_up_by_its_predicted_end_beside_the_defaults_curve(measured) -> None:
    history = measured(TWO_PARTS).history
    ends = CurveEnds((0.0,), 0.0, (0.0,), ((0.0,), (0.0,), (0.0,)))
    expected = Race(history.reference.target, history.due_s, ends, history.curve(DEFAULT))
    assert trial_plan(NEXT, history, ends=ends).curve.race == expected


@pytest.mark.parametrize(("slowest", "ends"), [(2.0, True), (54.0, True), (54.1, False), (None, False)])
def test_where_seconds_count_a_trial_ends_when_it_is_too_slow_to_win(
    measured, slowest: float | None, ends: bool
) -> None:
    history = measured(MODE1, priority=Priority.parse("time")).history
    assert history.trial_s > history.reference.budget_s
    curve = trial_plan(NEXT, history, slowest).curve
    assert history.reference.budget_s == pytest.approx(54.1)
    assert curve.race.seconds == (slowest if ends else None)
    assert curve.least_throughput == 0


@pytest.mark.parametrize(
    ("priority", "ends"),
    [
        ("throughput", True),
        ("balanced", True),
        ("2,1,1", True),
        ("memory", False),
        ("accuracy", False),
        ("0,1,1", False),
    ],
)
def test_a_trial_ends_when_it_is_later_than_what_may_be_chosen(measured, priority: str, ends: bool) -> None:
    history = measured(MODE1, priority=Priority.parse(priority)).history
    default_s = history.reference_figures.seconds_to_accuracy
    assert SECONDS_AGAIN * default_s < history.reference.budget_s
    assert trial_plan(NEXT, history).curve.race.seconds == (SECONDS_AGAIN * default_s if ends else None)


@pytest.mark.parametrize(("slowest", "most"), [(20.0, 20.0), (40.0, 35.0), (None, 35.0)])
def test_where_seconds_count_a_trial_takes_a_quarter_of_what_baseline_and_verification_leave(
    measured, formulas, slowest: float | None, most: float
) -> None:
    def slowly(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, curve=rising(500, 0.5, 0.9))

    options = {"budget": 240.0, "trial_s": 20.0, "executor": formulas(slowly)}
    history = measured(priority=Priority.parse("time"), **options).history
    assert history.trial_s == pytest.approx((160 - 20) / 4)
    assert trial_plan(NEXT, history, slowest).curve.race.seconds == pytest.approx(most)
    others = measured(**options).history
    assert SECONDS_AGAIN * others.latest_s > others.reference.budget_s
    assert trial_plan(NEXT, others).curve.race.seconds is None


def test_a_trial_that_was_cut_off_may_go_on_once_under_a_larger_budget(measured, formulas) -> None:
    def late(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, curve=rising(500, 0.5, 0.9))  # two parts are a fifth faster

    options = {"priority": Priority.parse("time"), "budget": 240.0, "trial_s": 20.0, "executor": formulas(late)}
    history = measured(TWO_PARTS, **options).history
    trial = history.trials[1]
    assert trial.metrics.curve.ended is CurveEnd.SLOWER
    assert 20 < trial.metrics.pace.seconds(trial.metrics.curve.trained) <= 35
    assert not history.outgrown(trial)
    request = dataclasses.replace(history.study.request, budget=600.0)
    longer = dataclasses.replace(history, study=dataclasses.replace(history.study, request=request))
    assert longer.outgrown(trial)
    assert not longer.with_trial(trial).outgrown(trial)  # once


@pytest.mark.parametrize("slowest", [1.25, None])
def test_where_throughput_counts_the_slower_ones_are_not_trained(measured, slowest: float | None) -> None:
    history = measured(MODE1).history
    curve = trial_plan(NEXT, history, slowest).curve
    assert curve.least_throughput == (slowest or 0.0)
    assert curve.race.seconds == history.due_s  # as slow as it may be, its accuracy must not be late


def test_what_was_given_up_for_its_speed_is_not_known_to_miss_the_least_accuracy(measured, formulas) -> None:
    def poor(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config != TWO_PARTS:
            return metrics
        lower = tuple(0.5 * value for value in metrics.curve.val_accuracy)
        return dataclasses.replace(metrics, curve=dataclasses.replace(metrics.curve, val_accuracy=lower))

    tune = measured(MODE1, executor=formulas(poor), priority=Priority.parse("time"))
    history = tune.runner.measure(NEXT, Beliefs(tune.history, fit_surrogate(tune.history)))
    slower = history.measured()[-1]
    assert slower.metrics.curve.ended is CurveEnd.SLOWER
    assert not slower.figures.complete
    assert history.objectives.limits.broken_by(slower.figures)
    assert history.breaches(slower) == ()
    assert slower not in history.eligible()
