"""A given target that the default misses: its seconds are not known, and no ratio to them is taken for seconds."""

import dataclasses

import numpy as np
import pytest

from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import TrialCost, expected_trial_s, expected_trials_s, fit_surrogate, predict
from a3gnn.tuning.study.trial import Proposal
from tests.tuning.formulas import learned
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS

#: The default has 90 % at best.
MISSED = {"target_accuracy": 95.0, "priority": Priority.parse("time")}


def two_parts_learn_more(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
    """Two parts reach the target after 30 mini-batches, as they would in the formulas, and set up for 20 s."""
    if request.config != TWO_PARTS:
        return metrics
    return dataclasses.replace(metrics, curve=learned(0.96), setup_seconds=20.0)


@pytest.mark.parametrize("priority", ["time", "throughput", "memory"])
def test_a_trial_is_expected_to_train_for_the_whole_budget(measured, priority: str) -> None:
    history = measured(trial_s=2.0, **MISSED | {"priority": Priority.parse(priority)}).history
    assert history.reference_figures.seconds_to_accuracy is None
    surrogate, cost, reference = fit_surrogate(history), TrialCost.of(history), history.reference
    found = predict(surrogate, history, [TWO_PARTS, FOUR_PARTS])
    assert found.budget_s is None
    seconds = expected_trials_s(history, np.zeros(2, np.bool_), found)
    assert seconds.tolist() == pytest.approx([cost.around_s + reference.budget_s * (1 + cost.eval_share)] * 2)
    assert expected_trial_s(surrogate, history, TWO_PARTS) == pytest.approx(seconds[0])


def test_where_the_default_reaches_the_target_seconds_are_seconds(measured) -> None:
    history = measured(**MISSED | {"target_accuracy": 80.0}).history
    found = predict(fit_surrogate(history), history, [DEFAULT])
    assert found.budget_s == history.reference.budget_s
    assert found.column("seconds_to_accuracy") == pytest.approx(history.reference_figures.seconds_to_accuracy, rel=0.1)


def test_no_trial_is_given_up_by_a_ratio(measured, formulas) -> None:
    tune = measured(TWO_PARTS, executor=formulas(two_parts_learn_more), **MISSED)
    assert tune.history.best().figures.seconds_to_accuracy > 20.0
    tune.runner.measure(Proposal("best", FOUR_PARTS), Beliefs(tune.history, fit_surrogate(tune.history)))
    assert tune.executor.ran[-1].plan.curve.race.seconds is None


def test_a_known_curve_does_not_put_seconds_among_ratios(measured, formulas) -> None:
    history = measured(TWO_PARTS, executor=formulas(two_parts_learn_more), **MISSED).history
    found = predict(fit_surrogate(history), history, [DEFAULT, MODE1]).column("seconds_to_accuracy")
    assert found[0] == pytest.approx(1.0, rel=0.2)
    assert 0.6 < found[1] < 1.1  # not the tens of seconds for which their curve is known


def test_no_ratio_is_kept_or_shown_as_predicted_seconds(measured) -> None:
    tune = measured(MODE1, **MISSED)
    history = tune.runner.measure(Proposal("front", FOUR_PARTS), Beliefs(tune.history, fit_surrogate(tune.history)))
    assert "seconds_to_accuracy" not in history.trials[-1].predicted
    assert "throughput_epochs_per_s" in history.trials[-1].predicted
