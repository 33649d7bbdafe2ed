"""Which trial is taken for the best where one was lucky; by formulas."""

import dataclasses
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.learning_curve import CurveEnd
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import believed, fit_surrogate
from a3gnn.tuning.study.trial import Proposal
from a3gnn.tuning.verify.verification import verify
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS

#: 0.96 times as fast as the default, and learns what two parts do.
FROM_DISK = TWO_PARTS.replace(feature_tier="disk").canonical()
#: 1.56 times as fast, and learns that too.
TWO_PARTS_MODE1 = TWO_PARTS.replace(parallel_mode="mode1", num_workers=2).canonical()
TWO_PARTS_MODE2 = TWO_PARTS.replace(parallel_mode="mode2", num_workers=2).canonical()


def lucky_at_first(config: TrainConfig, factor: float) -> Callable[[TrialRequest, Metrics, int], Metrics]:
    """Returns what makes the first trial of `config` so many times as fast as it is."""

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config != config or before:
            return metrics
        speed = factor * metrics.throughput_epochs_per_s
        return dataclasses.replace(metrics, throughput_epochs_per_s=speed, throughput_replicates=(speed, speed))

    return alter


OPTIONS = {"budget": 20, "max_accuracy_drop": 5.0}


def test_the_best_is_what_all_trials_say_not_a_lucky_one(measured, formulas) -> None:
    luck = formulas(lucky_at_first(TWO_PARTS, 1.31))
    tune = measured(TWO_PARTS_MODE1, FROM_DISK, TWO_PARTS_MODE2, MODE1, TWO_PARTS, executor=luck, **OPTIONS)
    history = tune.history
    ranked = believed(history, fit_surrogate(history))
    assert history.best().trial.measurement.config == TWO_PARTS
    assert ranked[0].trial.measurement.config == TWO_PARTS_MODE1
    assert {one.trial.measurement.config.key() for one in ranked} == {
        one.trial.measurement.config.key() for one in history.ranked()
    }


def test_contenders_are_taken_in_the_order_that_is_believed(measured, formulas) -> None:
    luck = formulas(lucky_at_first(TWO_PARTS, 1.31))
    tune = measured(FOUR_PARTS, FROM_DISK, MODE1, TWO_PARTS_MODE1, TWO_PARTS, executor=luck, **OPTIONS)
    lucky, better, *others = tune.history.ranked()
    assert [one.trial.measurement.config for one in (lucky, better)] == [TWO_PARTS, TWO_PARTS_MODE1]
    choice = verify(tune.history, tune.runner, [better, lucky, *others])
    assert choice.trial.measurement.config == TWO_PARTS_MODE1  # by single measurements it is no contender
    assert {one.config for one in tune.executor.timed} == {TWO_PARTS_MODE1, FOUR_PARTS, MODE1, DEFAULT}


def test_what_is_better_than_a_lucky_trial_is_trained_and_chosen(measured, formulas) -> None:
    luck = formulas(lucky_at_first(TWO_PARTS, 1.3))
    tune = measured(FROM_DISK, MODE1, TWO_PARTS, executor=luck, **OPTIONS)
    surrogate = fit_surrogate(tune.history)
    history = tune.runner.measure(Proposal("best", FOUR_PARTS), Beliefs(tune.history, surrogate))
    trained = history.trials[-1].metrics
    assert trained.throughput_epochs_per_s == pytest.approx(1.4)  # below what the lucky one asks for
    assert trained.curve.ended is not CurveEnd.SLOWER
    choice = verify(history, tune.runner, believed(history, fit_surrogate(history, surrogate)))
    assert choice.trial.measurement.config == FOUR_PARTS


@pytest.mark.parametrize("target", [None, 95.0])
def test_figures_are_those_of_the_known_curve_at_the_predicted_pace(measured, target: float | None) -> None:
    """Where the default misses the target, seconds are predicted as ratios, which are no figures."""
    options = {"priority": Priority.parse("time"), "target_accuracy": target}
    history = measured(TWO_PARTS, MODE1, **OPTIONS | options).history
    for one in believed(history, fit_surrogate(history)):
        curve, metrics = history.curve(one.trial.measurement.config), one.metrics
        reached = curve.first_reaching(history.reference.target)
        pace = dataclasses.replace(metrics, throughput_epochs_per_s=one.figures.throughput_epochs_per_s).pace
        assert one.figures.seconds_to_accuracy == (None if reached is None else pace.seconds(reached))
        assert one.figures.throughput_epochs_per_s == pytest.approx(metrics.throughput_epochs_per_s, rel=0.2)


def test_before_anything_is_eligible_there_is_no_best(measured) -> None:
    history = dataclasses.replace(measured().history, trials=())
    assert believed(history, fit_surrogate(measured().history)) == []
