"""Trainings until nothing improves, of baseline and choice, and recipes that fall apart; by formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.run.finish import finish
from a3gnn.tuning.study.trial import SpeedTiming
from a3gnn.tuning.tell.trial_lines import trial_message
from a3gnn.tuning.verify.verification import verify
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS, Measured

TIME = {"priority": Priority.parse("time"), "max_accuracy_drop": 2.0}


def rising(until: int, least: float, most: float, points: int = 80) -> LearningCurve:
    """Returns a curve that rises linearly in its points from `least` to `most` at `until` mini-batches, and stays."""
    counts = [10]
    while len(counts) < points:
        counts.append(next_point(counts[-1], 10))
    return LearningCurve(
        tuple(counts), tuple(least + (most - least) * min(1.0, one / until) for one in counts), CurveEnd.BUDGET
    )


def learning(curves: dict[object, LearningCurve]) -> Callable[[TrialRequest, Metrics, int], Metrics]:
    """Gives configurations their curves, and a test accuracy a point below the best validation accuracy."""

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        curve = curves.get(request.config, metrics.curve)
        return dataclasses.replace(metrics, curve=curve, test_accuracy=max(curve.val_accuracy) - 0.01)

    return alter


def lines(tune: Measured) -> str:
    return "\n".join(tune.lines)


def test_the_baseline_is_tested_in_its_own_trial_and_trained_once(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, max_accuracy_drop=5.0)
    assert tune.history.reference_metrics.test_accuracy == 0.5
    choice = verify(tune.history, tune.runner)
    own = [one for one in tune.executor.whole if one.config == DEFAULT and one.setting.task.seed == 0]
    assert not own
    assert choice.default.metrics.test_accuracy == 0.5
    assert choice.left_out == ()


def test_both_ends_are_those_of_trainings_with_the_tasks_seed_until_nothing_improves(measured, formulas) -> None:
    curves = {DEFAULT: rising(300, 0.5, 0.90), TWO_PARTS: rising(120, 0.5, 0.92)}
    tune = measured(TWO_PARTS, executor=formulas(learning(curves)), **TIME)
    assert not tune.history.reference.still_rising
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    default, other = choice.final["default"], choice.final["other"]
    assert (default.val_accuracy, default.test_accuracy) == pytest.approx((0.90, 0.89))
    assert (other.val_accuracy, other.test_accuracy) == pytest.approx((0.92, 0.91))
    assert default.stopped
    assert other.stopped
    assert default.seconds == pytest.approx(54.1)  # twenty points, 541 mini-batches, ten per second
    assert other.seconds == pytest.approx(54.1 / 1.2)
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    assert TunedConfig.read(result.folder).final == {name: one._asdict() for name, one in choice.final.items()}
    table = {line.label: line for line in result.summary.table}
    assert table["final validation accuracy"][1:] == ("90.00%", "92.00%", "+2.00 points")
    assert table["final test accuracy"][1:] == ("89.00%", "91.00%", "+2.00 points, not used to choose")
    assert table["stops improving after"][1:3] == ("54.1 s", "45.1 s")
    assert not any(label.startswith(("validation", "test")) for label in table)  # one sample, shown once


FASTER = dataclasses.replace(TWO_PARTS, learning_rate_scale=4.0)
RATE = dataclasses.replace(DEFAULT, learning_rate_scale=4.0)


def with_rate_alone(measured: Callable[..., Measured], formulas: Callable, most: float) -> Measured:
    """Returns a tune whose best trial has four times the rate; with the rate alone the baseline rises to `most`."""
    curves = {DEFAULT: rising(300, 0.5, 0.90), FASTER: rising(60, 0.5, 0.92), RATE: rising(150, 0.5, most)}
    return measured(FASTER, executor=formulas(learning(curves)), **TIME)


def test_the_rate_alone_is_trained_once_where_the_choice_changes_it(measured, formulas) -> None:
    tune = with_rate_alone(measured, formulas, 0.90)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == FASTER
    assert [one.config for one in tune.executor.whole].count(RATE) == 1
    target = tune.history.reference.target
    expected = rising(150, 0.5, 0.90).first_reaching(target) / 10  # ten mini-batches per second, as the baseline
    assert choice.rate_alone == (4.0, pytest.approx(expected))
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    assert TunedConfig.read(result.folder).rate_alone == choice.rate_alone._asdict()
    line = next(line for line in result.summary.table if line.label == "  lr x4 alone")
    baseline_s = choice.default.figures.seconds_to_accuracy
    assert line[2:] == (f"{expected:.3g} s", f"{baseline_s / expected:.2f}x, one training")


def test_the_rate_alone_may_miss_the_target(measured, formulas) -> None:
    tune = with_rate_alone(measured, formulas, 0.60)
    choice = verify(tune.history, tune.runner)
    assert choice.rate_alone == (4.0, None)
    summary = finish(tune.history, choice, SearchSummary("ei"), tune.runner).summary
    line = next(line for line in summary.table if line.label == "  lr x4 alone")
    assert line[2:] == ("not reached", "")


@pytest.mark.parametrize(("scale", "priority"), [(1.0, "time"), (4.0, "throughput")])
def test_the_rate_alone_is_not_trained_where_it_says_nothing(measured, formulas, scale: float, priority: str) -> None:
    choice_config = dataclasses.replace(TWO_PARTS, learning_rate_scale=scale)
    curves = {DEFAULT: rising(300, 0.5, 0.90), choice_config: rising(60, 0.5, 0.92)}
    options = TIME | {"priority": Priority.parse(priority)}
    tune = measured(choice_config, executor=formulas(learning(curves)), **options)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == choice_config
    assert choice.rate_alone is None


def test_a_whole_training_ends_when_it_stops_improving_at_the_target(measured, formulas) -> None:
    curves = {DEFAULT: rising(1000, 0.5, 0.90), TWO_PARTS: rising(60, 0.5, 0.91)}
    tune = measured(TWO_PARTS, executor=formulas(learning(curves)), **TIME)
    choice = verify(tune.history, tune.runner)
    whole = choice.judged.metrics
    assert whole.curve.ended is CurveEnd.PLATEAU
    assert whole.pace.seconds(whole.curve.trained) < 0.5 * tune.history.reference.budget_s
    low = {DEFAULT: rising(1000, 0.5, 0.90), TWO_PARTS: rising(60, 0.5, 0.55, points=30)}
    flat = measured(TWO_PARTS, executor=formulas(learning(low)), max_accuracy_drop=60.0)
    plan = flat.runner.train_whole(TWO_PARTS, flat.history).outcome
    assert plan.curve.ended is CurveEnd.PLATEAU
    bound = measured(TWO_PARTS, executor=formulas(learning(low)), max_accuracy_drop=2.0)
    curve = bound.runner.train_whole(TWO_PARTS, bound.history).outcome.curve
    assert curve.ended is not CurveEnd.PLATEAU  # below the target it may still start to learn


def test_a_choice_that_ends_below_the_allowed_drop_hands_over_to_the_next_finalist(measured, formulas) -> None:
    """The baseline still improves when trials are compared; four parts are quick, and end two points below it."""
    curves = {
        DEFAULT: rising(2200, 0.5, 0.90),
        FOUR_PARTS: rising(200, 0.5, 0.87),
        TWO_PARTS: rising(1500, 0.5, 0.91),
    }
    options = TIME | {"max_accuracy_drop": 1.0, "budget": 600.0, "trial_s": 2.0}
    tune = measured(FOUR_PARTS, TWO_PARTS, executor=formulas(learning(curves)), **options)
    assert tune.history.still_rising
    assert tune.history.best().trial.measurement.config == FOUR_PARTS
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    assert "rejected: accuracy 2 points under the least allowed, 89.00%, where both stop improving" in lines(tune)
    assert choice.final["default"].val_accuracy == pytest.approx(0.90)
    assert choice.final["default"].stopped
    assert choice.final["other"].val_accuracy == pytest.approx(0.91)
    on = [one for one in tune.executor.explored if one.plan.curve.tests and one.plan.curve.most_seconds < 1]
    assert [one.config for one in on] == [
        DEFAULT,
        TWO_PARTS,
    ]  # four parts had stopped already, and the baseline is trained on once


def test_a_short_budget_leaves_the_ends_out_and_says_what_would_settle_it(measured, formulas) -> None:
    curves = {DEFAULT: rising(2200, 0.5, 0.90), TWO_PARTS: rising(800, 0.5, 0.92)}
    options = TIME | {"budget": 90.0, "spent_s": 20.0, "trial_s": 2.0}
    tune = measured(TWO_PARTS, executor=formulas(learning(curves)), **options)
    choice = verify(tune.history, tune.runner)
    assert choice.final == {}
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    tuned = TunedConfig.read(result.folder)
    assert tuned.final is None
    assert tuned.still_rising
    assert tuned.settling_budget_s == tune.history.settling_budget_s > 90.0
    assert tuned.unsettled.startswith(f"compared after {tuned.default_budget_s:.3g} s of training; the baseline was")
    assert tuned.unsettled.endswith("settles half of such tunes)")
    assert tuned.unsettled in result.summary.warnings
    labels = [line.label for line in result.summary.table]
    assert "validation accuracy" in labels
    assert "final validation accuracy" not in labels


@pytest.mark.parametrize("options", [{"accuracy_epochs": 5}, {"target_accuracy": 80.0}])
def test_a_request_that_says_how_far_the_baseline_trains_is_settled(measured, options: dict) -> None:
    tune = measured(MODE1, priority=Priority.parse("time"), max_accuracy_drop=5.0, **options)
    choice = verify(tune.history, tune.runner)
    assert choice.final == {}
    tuned = finish(tune.history, choice, SearchSummary("ei"), tune.runner).tuned
    assert tuned.unsettled == ""
    assert tuned.settling_budget_s is None


@pytest.mark.parametrize("priority", ["time", "throughput", "memory", "balanced"])
def test_a_recipe_that_falls_apart_is_not_chosen(measured, formulas, priority: str) -> None:
    healthy = rising(300, 0.5, 0.90)
    falls = dataclasses.replace(rising(60, 0.5, 0.92), val_accuracy=(0.6, 0.92, *[0.708] * (len(healthy.batches) - 2)))
    curves = {DEFAULT: healthy, TWO_PARTS: falls}
    options = {"priority": Priority.parse(priority), "max_accuracy_drop": 1.0}
    tune = measured(TWO_PARTS, executor=formulas(learning(curves)), **options)
    (fallen,) = [one for one in tune.history.measured() if one.trial.measurement.config == TWO_PARTS]
    assert fallen.figures.seconds_to_accuracy is None
    assert fallen.figures.val_accuracy == pytest.approx(0.708)
    assert fallen not in tune.history.eligible()
    assert "(touched, fell back)" in trial_message(fallen.trial, tune.history, tune.runner.budget)
    assert verify(tune.history, tune.runner).trial.measurement.config == DEFAULT


def test_a_recipe_that_falls_apart_with_other_seeds_is_refused(measured, formulas) -> None:
    def unstable(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config != TWO_PARTS or request.setting.task.seed == 0:
            return metrics
        spike = (0.3, 0.9, *[0.5] * (len(metrics.curve.batches) - 2))
        return dataclasses.replace(metrics, curve=dataclasses.replace(metrics.curve, val_accuracy=spike))

    options = {"priority": Priority.parse("time"), "max_accuracy_drop": 5.0, "executor": formulas(unstable)}
    tune = measured(TWO_PARTS, **options)
    assert verify(tune.history, tune.runner).trial.measurement.config == DEFAULT
    assert "with 1 of 3 seeds, the baseline with 3" in lines(tune)


@pytest.mark.parametrize("drift", [0.5, 1.0, 2.0])
def test_a_baseline_that_is_chosen_has_its_accuracy_whatever_the_machines_speed(measured, formulas, drift) -> None:
    executor = formulas(learning({DEFAULT: rising(500, 0.5, 0.9), TWO_PARTS: rising(500, 0.1, 0.2)}))
    tune = measured(TWO_PARTS, executor=executor, **TIME)
    history = tune.history.with_timing(SpeedTiming(tune.history.trials[0].measurement.created, drift))
    choice = verify(history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    assert choice.judged.figures.val_accuracy == pytest.approx(0.9)
    result = finish(history, choice, SearchSummary("ei"), tune.runner)
    assert not result.summary.warnings
    assert not executor.whole


def test_a_choice_that_still_improves_has_a_lower_bound(measured, formulas) -> None:
    """Its training may take the baseline's seconds whatever the budget, but the budget is too small for more."""
    curves = {DEFAULT: rising(300, 0.5, 0.90), TWO_PARTS: rising(600, 0.86, 0.92)}
    options = TIME | {"budget": 200.0, "spent_s": 185.0, "trial_s": 2.0}
    tune = measured(TWO_PARTS, executor=formulas(learning(curves)), **options)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    assert [choice.final[name].stopped for name in ("default", "other")] == [True, False]
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    table = {line.label: line for line in result.summary.table}
    assert table["final validation accuracy"][1:] == ("90.00%", ">= 92.00%", "at least +2.00 points")
    assert table["stops improving after"][2].startswith("> ")
