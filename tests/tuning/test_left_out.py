"""What a play-off leaves out where the budget is too small for it, and for what it uses the rest; by formulas."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.run.plans import MOST_ALTERNATIONS, MOST_SEEDS, SEEDS, PlayOffCost, reserve_s
from a3gnn.tuning.study import budget
from a3gnn.tuning.study.comparison import ALTERNATIONS
from a3gnn.tuning.verify import play_off as play_off_trials
from a3gnn.tuning.verify.play_off import play_off
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS

TIMED_S, WHOLE_S = 1.0, 8.0


class Clock:
    """Seconds that pass with trials alone: `TIMED_S` with a timed one, `WHOLE_S` with another."""

    def __init__(self) -> None:
        self.now = 0.0

    def passes(self, request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        self.now += TIMED_S if request.plan.curve is None else WHOLE_S
        return metrics


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the budget and the play-off read as the time."""
    clock = Clock()
    for module in (budget, play_off_trials):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.mark.parametrize(
    ("left_s", "alternations", "seeds", "left_out"),
    [
        # Of 60 s: 6 for rounds, 16 for both trainings, 16 for a seed of both, and the rest alternates.
        (60.0, 11, 2, ("1 further seed",)),
        # Rounds are left out first: fewer than five alternations tell no gain.
        (25.0, 8, None, ("2 rounds among 3 finalists", "the baseline's test accuracy", "2 further seeds")),
        (
            -1.0,
            1,
            None,
            (
                "2 rounds among 3 finalists",
                "the baseline's test accuracy",
                "2 further seeds",
                "4 of 5 alternations with the baseline",
            ),
        ),
    ],
)
def test_what_a_budget_is_too_small_for_is_said_and_the_rest_is_used(
    measured, formulas, clock: Clock, left_s: float, alternations: int, seeds: int | None, left_out: tuple[str, ...]
) -> None:
    executor = formulas(clock.passes)
    tune = measured(TWO_PARTS, MODE1, executor=executor, budget=100.0, spent_s=100.0 - left_s, trial_s=2.0)
    begun = clock.now
    choice = play_off(tune.history, tune.runner)
    assert choice.left_out == left_out
    assert MODE1 in [request.config for request in executor.whole]  # its whole training is never left out
    against = choice.against if alternations >= ALTERNATIONS else choice.no_gain.against  # too few tell no gain
    assert against.throughput.repeats == alternations
    assert sum(request.config == DEFAULT for request in executor.whole) == (seeds or 0)
    assert against.accuracy.repeats == (seeds or 1)
    if left_s > 0:
        assert left_s - 2 * TIMED_S < clock.now - begun <= left_s


def test_a_budget_in_trials_leaves_nothing_out_and_nothing_over(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, budget=5, trial_s=2.0)
    choice = play_off(tune.history, tune.runner)
    assert choice.left_out == ()
    assert choice.against.throughput.repeats == ALTERNATIONS
    assert choice.against.accuracy.repeats == 1 + SEEDS


def test_what_is_left_over_goes_into_more_alternations_and_seeds(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, budget=600.0, trial_s=2.0)
    choice = play_off(tune.history, tune.runner)
    assert choice.left_out == ()
    assert choice.against.throughput.repeats == MOST_ALTERNATIONS
    assert choice.against.accuracy.repeats == 1 + MOST_SEEDS


def test_a_default_that_is_chosen_is_timed_as_often_as_another_choice(measured) -> None:
    tune = measured(TWO_PARTS, budget=600.0, max_accuracy_drop=1.0)
    choice = play_off(tune.history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    assert len(choice.judged.metrics.throughput_replicates) == len(tune.executor.timed) == ALTERNATIONS
    assert choice.left_out == ()


@pytest.mark.parametrize(("priority", "seeds", "alternations"), [("accuracy", 2, 2), ("throughput", 1, 10)])
def test_where_speed_does_not_decide_seeds_come_before_alternations(
    measured, formulas, clock: Clock, priority: str, seeds: int, alternations: int
) -> None:
    executor = formulas(clock.passes)
    budget = {"budget": 100.0, "spent_s": 100.0 - 40.0, "trial_s": 2.0}  # 8 s a training, 2 s an alternation
    tune = measured(MODE1, executor=executor, priority=Priority.parse(priority), **budget)
    choice = play_off(tune.history, tune.runner)
    against = choice.against or choice.no_gain.against
    assert (against.accuracy.repeats, against.throughput.repeats) == (seeds, alternations)


def test_what_is_kept_for_a_play_off_is_no_more_than_it_takes(measured) -> None:
    few = measured(MODE1, trial_s=2.0).history
    cost = PlayOffCost.expected(few)
    assert cost.timing_s == pytest.approx(2.0 - 1.0)  # a second less is timed than in a trial
    assert cost.whole_s == pytest.approx(cost.timing_s + few.reference.budget_s)
    assert cost.least_s < reserve_s(few, 1e6) < 1.3 * cost.least_s
    assert reserve_s(few, 1.0) == 1.0
    assert cost.least_s < cost.full_s / 2


def test_where_seconds_count_further_seeds_are_trained_to_the_target(measured) -> None:
    tune = measured(MODE1, priority=Priority.parse("time"), budget=5, trial_s=2.0)
    choice = play_off(tune.history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    target, seeds = tune.history.reference.target, [one.setting.task.seed for one in tune.executor.whole]
    assert seeds == [0, *sorted([*range(1, SEEDS + 1)] * 2), 0]  # at last the default's, for its test accuracy
    assert [one.plan.curve.target for one in tune.executor.whole] == [None if seed == 0 else target for seed in seeds]
    assert choice.against.time.repeats == (1 + SEEDS) * ALTERNATIONS
    assert choice.against.accuracy.repeats == 1  # the others tell the target alone
    assert choice.left_out == ()


def test_where_seconds_count_a_seed_is_kept_room_for(measured) -> None:
    history = measured(MODE1, priority=Priority.parse("time"), trial_s=2.0).history
    cost = PlayOffCost.expected(history)
    assert cost.seed_s < 2 * cost.whole_s
    assert cost.least_s == pytest.approx(cost.whole_s + 2 * ALTERNATIONS * cost.timing_s + cost.seed_s)
    assert reserve_s(history, 0.9 * cost.least_s) == pytest.approx(1.2 * cost.least_s)
    assert reserve_s(history, 0.5 * cost.least_s) == pytest.approx(1.35 * 0.5 * cost.least_s)


def test_what_reaches_the_target_with_fewer_seeds_than_the_default_is_refused(measured, formulas) -> None:
    def lucky(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        """Four parts reach the target with the task's seed alone."""
        if request.config != FOUR_PARTS or request.setting.task.seed == 0:
            return metrics
        lower = tuple(0.5 * value for value in metrics.curve.val_accuracy)
        return dataclasses.replace(metrics, curve=dataclasses.replace(metrics.curve, val_accuracy=lower))

    options = {"priority": Priority.parse("time"), "max_accuracy_drop": 10.0, "executor": formulas(lucky)}
    tune = measured(FOUR_PARTS, MODE1, **options)
    assert tune.history.best().trial.measurement.config == FOUR_PARTS
    assert play_off(tune.history, tune.runner).trial.measurement.config == MODE1
    assert "with 1 of 3 seeds, the baseline with 3" in "\n".join(tune.lines)
