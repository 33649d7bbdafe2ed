"""What a verification leaves out where the budget is too small for it, and for what it uses the rest; by formulas."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from a3gnn.figures import LEAST_PAIRS
from a3gnn.learning_curve import CONFIRMED
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.objectives import Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.run.blocks import CONTENDERS, MOST_BLOCKS, SEEDS, BlockCost, reserve_s
from a3gnn.tuning.run.finish import finish
from a3gnn.tuning.study import budget
from a3gnn.tuning.verify import verification
from a3gnn.tuning.verify.verification import verify
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS
from tests.tuning.verify.test_ends import learning, rising

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
    """What the budget and the verification read as the time."""
    clock = Clock()
    for module in (budget, verification):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.mark.parametrize(
    ("left_s", "pairs", "seeds", "left_out"),
    [
        # Of 60 s: 3 to compare both, 9 for the whole training, 32 for two seeds, and timings.
        (60.0, 12, 3, ()),
        # Fewer than five pairs show only a large gain, so they come before seeds.
        (25.0, 8, 1, ("2 further seeds",)),
        (14.0, 3, 1, ("a comparison with 1 other candidate", "2 further seeds",
                      "2 of 5 runs in turns with the baseline")),
        (-1.0, 1, 1, ("a comparison with 1 other candidate", "2 further seeds",
                      "4 of 5 runs in turns with the baseline")),
    ],
)  # fmt: skip
def test_what_a_budget_is_too_small_for_is_said_and_the_rest_is_used(
    measured, formulas, clock: Clock, left_s: float, pairs: int, seeds: int, left_out: tuple[str, ...]
) -> None:
    executor = formulas(clock.passes)
    tune = measured(TWO_PARTS, MODE1, executor=executor, budget=100.0, spent_s=100.0 - left_s, trial_s=2.0)
    begun = clock.now
    choice = verify(tune.history, tune.runner)
    assert choice.left_out == left_out
    assert MODE1 in [request.config for request in executor.whole]  # its whole training is never left out
    against = choice.against if pairs >= LEAST_PAIRS else choice.no_gain.against  # too few tell no gain
    assert against.throughput.repeats == pairs
    assert against.accuracy.repeats == seeds
    if left_s > 0:
        assert left_s - 2 * TIMED_S < clock.now - begun <= left_s


@pytest.mark.parametrize(("priority", "beside"), [("time", "beside the final trainings "), ("throughput", "")])
def test_a_note_on_a_small_budget_names_what_it_was_spent_on(
    measured, formulas, clock: Clock, priority: str, beside: str
) -> None:
    until = 300 if beside else 2200  # a baseline that still improves has no final training
    alter = learning({DEFAULT: rising(until, 0.5, 0.90), TWO_PARTS: rising(600, 0.86, 0.92)})
    executor = formulas(lambda request, metrics, before: clock.passes(request, alter(request, metrics, before), before))
    options = {"priority": Priority.parse(priority), "max_accuracy_drop": 2.0, "trial_s": 2.0}
    tune = measured(TWO_PARTS, executor=executor, budget=400.0, spent_s=375.0, **options)
    choice = verify(tune.history, tune.runner)
    assert bool(choice.final) is bool(beside)
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    (note,) = [line for line in result.summary.warnings if "the budget was too small for" in line]
    assert note.startswith(f"{beside}the budget was too small for {choice.left_out[0]}")


def test_a_budget_in_trials_leaves_nothing_out_and_nothing_over(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, budget=5, trial_s=2.0)
    choice = verify(tune.history, tune.runner)
    assert choice.left_out == ()
    assert choice.against.throughput.repeats == LEAST_PAIRS
    assert choice.against.accuracy.repeats == SEEDS


def test_what_is_left_over_goes_into_more_blocks(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, budget=600.0, trial_s=2.0)
    choice = verify(tune.history, tune.runner)
    assert choice.left_out == ()
    assert choice.against.throughput.repeats == MOST_BLOCKS
    assert choice.against.accuracy.repeats == SEEDS


def test_a_default_that_is_chosen_is_timed_as_often_as_another_choice(measured) -> None:
    tune = measured(TWO_PARTS, budget=600.0, max_accuracy_drop=1.0)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    assert len(choice.judged.metrics.throughput_replicates) == LEAST_PAIRS
    assert (len(tune.executor.whole), len(tune.executor.timed)) == (0, LEAST_PAIRS)  # its trial was its training
    assert choice.left_out == ()


@pytest.mark.parametrize(("priority", "seeds", "pairs"), [("accuracy", 3, 3), ("throughput", 2, 10)])
def test_where_speed_does_not_decide_seeds_come_before_timings(
    measured, formulas, clock: Clock, priority: str, seeds: int, pairs: int
) -> None:
    executor = formulas(clock.passes)
    budget = {"budget": 100.0, "spent_s": 100.0 - 42.0, "trial_s": 2.0}  # 8 s a training, 2 s a timing of both
    tune = measured(MODE1, executor=executor, priority=Priority.parse(priority), **budget)
    choice = verify(tune.history, tune.runner)
    against = choice.against or choice.no_gain.against
    assert (against.accuracy.repeats, against.throughput.repeats) == (seeds, pairs)


def test_what_is_reserved_is_what_the_first_five_blocks_take(measured, formulas, clock: Clock) -> None:
    few = measured(MODE1, trial_s=2.0).history
    cost = BlockCost(few)
    timing_s, whole_s = cost.run_s(None, None), cost.run_s(0, None)
    assert timing_s == pytest.approx(2.0 - 1.0)  # a second less is timed than in a trial
    assert whole_s == pytest.approx(2.0 + few.reference.budget_s)
    assert reserve_s(few, 1e6) == pytest.approx(5 * whole_s + 5 * timing_s)  # three seeds, of which the choice's own
    assert reserve_s(few, 1.0) == 1.0
    tried = (TWO_PARTS, MODE1, FOUR_PARTS)
    three = measured(*tried, trial_s=2.0, max_accuracy_drop=5.0).history
    assert (three.rivals, CONTENDERS) == (3, 3)
    assert reserve_s(three, 1e6) == pytest.approx(5 * whole_s + 8 * timing_s)
    lost = measured(*tried, trial_s=2.0, max_accuracy_drop=0.0).history
    assert lost.rivals < 2
    assert reserve_s(lost, 1e6) == pytest.approx(5 * whole_s + 5 * timing_s)


def test_where_seconds_count_further_seeds_take_the_seconds_to_the_target(measured) -> None:
    history = measured(TWO_PARTS, MODE1, FOUR_PARTS, priority=Priority.parse("time"), max_accuracy_drop=5.0).history
    cost = BlockCost(history)
    figures, baseline = history.best().figures, history.reference_figures
    assert cost.run_s(1, figures) - cost.run_s(1, baseline) == pytest.approx(
        CONFIRMED * (figures.seconds_to_accuracy - baseline.seconds_to_accuracy)
    )
    assert cost.run_s(1, baseline) < cost.run_s(0, baseline) == cost.run_s(1, None)
    trainings_s = cost.run_s(0, None) + 5 * cost.run_s(1, figures) + 2 * cost.run_s(1, baseline)
    assert reserve_s(history, 1e6) == pytest.approx(trainings_s + 5 * cost.run_s(None, None))


def test_what_reaches_the_target_with_fewer_seeds_than_the_default_is_refused(measured, formulas) -> None:
    def lucky(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        """Four parts reach the target with the task's seed alone."""
        if request.config != FOUR_PARTS or request.setting.task.seed == 0:
            return metrics
        lower = tuple(0.5 * value for value in metrics.curve.val_accuracy)
        return dataclasses.replace(metrics, curve=dataclasses.replace(metrics.curve, val_accuracy=lower))

    options = {"priority": Priority.parse("time"), "max_accuracy_drop": 10.0, "executor": formulas(lucky)}
    tune = measured(FOUR_PARTS, **options)
    assert verify(tune.history, tune.runner).trial.measurement.config == DEFAULT
    assert "with 1 of 3 seeds, the baseline with 3" in "\n".join(tune.lines)


@pytest.mark.parametrize("priority", ["time", "throughput", "accuracy", "balanced", "quality"])
@pytest.mark.parametrize(
    ("left_s", "timed_s"),
    [
        *((left_s, 1.0) for left_s in (0.0, 30.0, 60.0, 120.0, 240.0, 480.0)),
        *((left_s, 0.05) for left_s in (60.0, 120.0)),
    ],
)
def test_only_the_whole_training_of_the_choice_may_exceed_the_budget(
    measured, formulas, clock: Clock, priority: str, left_s: float, timed_s: float
) -> None:
    def passes(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        plan, pace = request.plan.curve, metrics.pace
        if plan is None or not plan.whole:
            clock.now += timed_s if plan is None else 1.0
            return metrics
        reached = None if plan.target is None else metrics.curve.first_reaching(plan.target)
        clock.now += 2.0 + (plan.most_seconds if reached is None else pace.seconds(reached))
        return metrics

    options = {"priority": Priority.parse(priority), "max_accuracy_drop": 5.0, "executor": formulas(passes)}
    tune = measured(TWO_PARTS, MODE1, FOUR_PARTS, budget=1000.0, spent_s=1000.0 - left_s, trial_s=2.0, **options)
    begun, cost = clock.now, BlockCost(tune.history)
    choice = verify(tune.history, tune.runner)
    spent_s = clock.now - begun
    assert spent_s <= max(left_s, cost.run_s(0, None) + cost.run_s(None, None)) + 1e-6
    against = choice.against or choice.no_gain.against
    if left_s >= reserve_s(tune.history, 1e6):
        if priority == "quality":
            assert against.accuracy.repeats >= 2
            return
        assert against.throughput.repeats >= LEAST_PAIRS
        assert not any("comparison" in what or "in turns" in what for what in choice.left_out)


def test_what_is_reserved_for_quality_is_a_second_seed_whatever_its_share(measured, formulas, clock: Clock) -> None:
    """One seed tells no gain, so a tune that spent everything else chose the baseline."""
    alter = learning(
        {DEFAULT: rising(300, 0.5, 0.86), TWO_PARTS: rising(300, 0.5, 0.92), FOUR_PARTS: rising(300, 0.5, 0.91)}
    )

    def passes(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        clock.now += 1.0 if request.plan.curve is None else 2.0 + request.plan.curve.most_seconds
        return alter(request, metrics, before)

    options = {"priority": Priority.parse("quality"), "executor": formulas(passes), "budget": 400.0, "trial_s": 2.0}
    history = measured(TWO_PARTS, FOUR_PARTS, **options).history
    assert history.reference.budget_s == 400.0 / 8
    left_s = reserve_s(history, 1.0)
    tune = measured(TWO_PARTS, FOUR_PARTS, **options, spent_s=400.0 - left_s)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    assert choice.against.accuracy.repeats == 2


def test_where_quality_counts_candidates_are_compared_without_a_baseline_too(measured, formulas) -> None:
    learnt = learning({TWO_PARTS: rising(300, 0.5, 0.92), FOUR_PARTS: rising(300, 0.5, 0.91)})

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        late = Failure(FailureKind.TIMEOUT, "took longer than 60 s", limit=60.0)
        return late if request.config == DEFAULT else learnt(request, metrics, before)

    tune = measured(TWO_PARTS, FOUR_PARTS, priority=Priority.parse("quality"), executor=formulas(alter))
    assert not tune.history.has_default_reference
    assert verify(tune.history, tune.runner).left_out == ()  # "the budget was too small" for nothing
    assert len(tune.executor.whole) == 2
