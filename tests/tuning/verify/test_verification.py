"""What the verification runs, chooses, refuses and says, by formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from statistics import median

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError
from a3gnn.figures import LEAST_PAIRS
from a3gnn.learning_curve import NO_CURVE, CurveEnd, LearningCurve
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.pareto import non_dominated
from a3gnn.profiling.request import TrialRequest
from a3gnn.report.text import describe_config
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.run.blocks import CONTENDERS, SEEDS
from a3gnn.tuning.run.finish import finish
from a3gnn.tuning.study.choice import Choice, NoGain
from a3gnn.tuning.study.measured_front import measured_front
from a3gnn.tuning.verify.verification import verify
from tests.tuning.formulas import learned
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS, Measured

MiB = 2**20
DISK = TrainConfig(feature_tier="disk").canonical()
Alter = Callable[[TrialRequest, Metrics, int], Metrics]


def faster(metrics: Metrics, factor: float) -> Metrics:
    speed = factor * metrics.throughput_epochs_per_s
    return dataclasses.replace(metrics, throughput_epochs_per_s=speed, throughput_replicates=(speed, speed))


def larger(metrics: Metrics, more: int) -> Metrics:
    return dataclasses.replace(metrics, peak_host_bytes=metrics.peak_host_bytes + more)


def note(tune: Measured, choice: Choice, config: object) -> str:
    return next(row for row in measured_front(tune.history, choice).rows if row.config == config).note


def test_who_wins_when_measured_again_is_chosen_though_another_was_luckier_at_first(measured, formulas) -> None:
    def lucky(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return faster(metrics, 3.0) if request.config == TWO_PARTS and not before else metrics

    tune = measured(TWO_PARTS, MODE1, executor=formulas(lucky))
    assert tune.history.best().trial.measurement.config == TWO_PARTS
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    assert note(tune, choice, TWO_PARTS) == "not the best when measured again"
    assert note(tune, choice, DEFAULT) == ""
    shown = {row.config: row.measured for row in measured_front(tune.history, choice).rows}
    assert shown[TWO_PARTS].throughput_epochs_per_s == pytest.approx(1.2)  # the lucky figure is shown nowhere
    assert shown[TWO_PARTS].throughput_high < 2


def test_what_is_told_is_the_median_and_the_range_of_the_blocks(measured, formulas) -> None:
    found: dict[object, list[float]] = {}

    def uneven(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        metrics = faster(metrics, 1 + 0.03 * ((3 * before) % 5))
        found.setdefault(request.config, []).append(metrics.throughput_epochs_per_s)
        return metrics

    tune = measured(MODE1, executor=formulas(uneven))
    choice = verify(tune.history, tune.runner)
    assert LEAST_PAIRS >= 5
    for config, judged in ((MODE1, choice.judged), (DEFAULT, choice.default)):
        last = found[config][-LEAST_PAIRS:]
        assert judged.metrics.throughput_replicates == tuple(last)
        figures = judged.figures
        assert figures.throughput_epochs_per_s == median(last)
        assert (figures.throughput_low, figures.throughput_high) == (min(last), max(last))
        assert figures == choice.figures[config.key()]
    ratios = [a / b for a, b in zip(found[MODE1][-LEAST_PAIRS:], found[DEFAULT][-LEAST_PAIRS:], strict=True)]
    assert choice.against.throughput == (median(ratios), min(ratios), max(ratios), LEAST_PAIRS)
    assert choice.against.differs
    assert choice.left_out == ()


def blocks(tune: Measured, before: int) -> list[list[tuple[object, int | None]]]:
    """Returns who ran in each block, and with which seed; None for who was only timed. No one runs twice in a block."""
    found: list[list[tuple[object, int | None]]] = [[]]
    for request in tune.executor.ran[before:]:
        if request.config in [config for config, _ in found[-1]]:
            found.append([])
        found[-1].append((request.config, None if request.plan.curve is None else request.setting.task.seed))
    return found


def test_three_are_halved_by_timings_and_the_last_one_trains_beside_the_baseline(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, FOUR_PARTS, max_accuracy_drop=5.0)
    before = len(tune.executor.ran)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == FOUR_PARTS
    assert blocks(tune, before) == [
        [(FOUR_PARTS, None), (MODE1, None), (TWO_PARTS, None), (DEFAULT, None)],
        [(MODE1, None), (DEFAULT, None), (FOUR_PARTS, None)],
        [(FOUR_PARTS, 0), (DEFAULT, None)],
        [(DEFAULT, 1), (FOUR_PARTS, 1)],
        [(FOUR_PARTS, 2), (DEFAULT, 2)],
    ]
    assert choice.against.throughput.repeats == 5
    assert choice.against.accuracy.repeats == SEEDS
    assert choice.left_out == ()
    assert tune.lines[0] == "comparing 3 candidates and the baseline in turns"
    assert sum("block 1:" in line for line in tune.lines) == 3


def test_contenders_train_with_fresh_seeds_where_seconds_to_the_target_count(measured) -> None:
    options = {"priority": Priority.parse("time"), "max_accuracy_drop": 5.0}
    tune = measured(TWO_PARTS, MODE1, FOUR_PARTS, **options)
    before = len(tune.executor.ran)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == FOUR_PARTS
    assert [[seed for _, seed in block] for block in blocks(tune, before)] == [
        [1, 1, 1, 1],  # with the task's own seed, 0, every curve is known
        [2, 2, 2],
        [0, None],
        [None, None],
        [None, None],
    ]
    target = tune.history.reference.target
    assert {(one.setting.task.seed, one.plan.curve.target) for one in tune.executor.whole} == {
        (0, None),
        (1, target),
        (2, target),
    }
    assert choice.against.time.repeats == LEAST_PAIRS * SEEDS
    assert choice.against.accuracy.repeats == 1  # other seeds ended at the target
    assert (choice.judged.metrics.test_accuracy, choice.default.metrics.test_accuracy) == (0.5, 0.5)


def test_where_accuracy_counts_contenders_train_whole(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, FOUR_PARTS, priority=Priority.parse("accuracy"), max_accuracy_drop=5.0)
    before = len(tune.executor.ran)
    verify(tune.history, tune.runner)
    ran = blocks(tune, before)
    assert sorted(seed is not None for _, seed in ran[0]) == [False, True, True, True]
    assert (DEFAULT, None) in ran[0]  # its own trial was that training
    assert [{seed for _, seed in block} for block in ran[1:3]] == [{1}, {2}]


def test_for_quality_contenders_train_with_fresh_seeds(measured) -> None:
    tune = measured(TWO_PARTS, MODE1, FOUR_PARTS, priority=Priority.parse("quality"), max_accuracy_drop=5.0)
    before = len(tune.executor.ran)
    verify(tune.history, tune.runner)
    seeds = [[seed for _, seed in block] for block in blocks(tune, before)]
    assert seeds[:2] == [[1, 1, 1, 1], [2, 2, 2]]
    assert sorted(map(str, seeds[2])) == ["0", "None"]


def test_a_lucky_seed_does_not_win(measured, formulas) -> None:
    """Four parts reach the target at once with the task's seed, and late with others."""

    def lucky(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config != FOUR_PARTS or request.setting.task.seed == 0:
            return metrics
        curve = metrics.curve
        return dataclasses.replace(
            metrics, curve=dataclasses.replace(curve, batches=tuple(2 * batches for batches in curve.batches))
        )

    options = {"priority": Priority.parse("time"), "max_accuracy_drop": 5.0}
    tune = measured(FOUR_PARTS, TWO_PARTS, executor=formulas(lucky), **options)
    assert tune.history.best().trial.measurement.config == FOUR_PARTS
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    assert note(tune, choice, FOUR_PARTS) == "not the best when measured again"


def test_ratios_and_shown_figures_are_of_the_same_runs(measured, formulas) -> None:
    def uneven(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return faster(metrics, 1 + 0.04 * ((7 * before + len(request.config.key())) % 5))

    tune = measured(TWO_PARTS, MODE1, FOUR_PARTS, executor=formulas(uneven), max_accuracy_drop=5.0)
    choice = verify(tune.history, tune.runner)
    own, default = (
        choice.judged.metrics.throughput_replicates,
        choice.default.metrics.throughput_replicates,
    )
    assert len(own) == len(default) == choice.against.throughput.repeats == 5  # the comparing blocks count as well
    assert choice.against.throughput.median == pytest.approx(median(own) / median(default))
    assert choice.against.time.median == pytest.approx(
        choice.default.figures.seconds_to_accuracy / choice.judged.figures.seconds_to_accuracy
    )


@pytest.mark.parametrize("when", ["first", "whole", "seed", "timing"])
@pytest.mark.parametrize("enforced", [True, False])
def test_a_finalist_that_breaks_the_limit_on_memory_hands_over(measured, formulas, when: str, enforced: bool) -> None:
    def swells(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        timed = request.plan.curve is None
        now = {
            "first": timed,
            "whole": not timed and request.plan.curve.whole,
            "seed": request.setting.task.seed > 0,
            "timing": timed and before > 2,
        }
        return larger(metrics, 90 * MiB) if request.config == MODE1 and now[when] else metrics

    executor = formulas(swells)
    executor.enforces_limits = enforced
    tune = measured(TWO_PARTS, MODE1, executor=executor, memory_limit=400 * MiB)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    assert choice.judged.metrics.peak_host_bytes <= 400 * MiB
    why = note(tune, choice, MODE1)
    assert why.startswith("rejected: " + ("out of memory" if enforced else "host memory 19"))
    assert why in measured_front(tune.history, choice).csv()
    assert sum("rejected" in line for line in tune.lines) == 1


def test_every_finalist_that_is_rejected_is_said(measured, formulas) -> None:
    def swell(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        whole = request.plan.curve is not None and request.plan.curve.whole
        return larger(metrics, 150 * MiB) if whole and request.config != DEFAULT else metrics

    tune = measured(TWO_PARTS, MODE1, executor=formulas(swell), memory_limit=400 * MiB)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    assert sum("rejected: out of memory" in line for line in tune.lines) == 2
    assert all(note(tune, choice, config).startswith("rejected") for config in (TWO_PARTS, MODE1))


def test_the_default_is_left_where_all_contenders_are_rejected_though_it_is_none(measured, formulas) -> None:
    more = [TWO_PARTS, MODE1, MODE1.replace(num_workers=2), TWO_PARTS.replace(parallel_mode="mode1")]

    def swell(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        whole = request.plan.curve is not None and request.plan.curve.whole
        return larger(metrics, 150 * MiB) if whole and request.config != DEFAULT else metrics

    tune = measured(*more, executor=formulas(swell), memory_limit=400 * MiB)
    assert DEFAULT not in [one.trial.measurement.config for one in tune.history.ranked()[:CONTENDERS]]
    assert verify(tune.history, tune.runner).trial.measurement.config == DEFAULT


def test_a_default_that_was_rejected_is_not_what_is_chosen_instead(measured, formulas) -> None:
    def swells(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config == DEFAULT and before == LEAST_PAIRS:
            return larger(metrics, 150 * MiB)
        return faster(metrics, 0.1) if before and request.config != DEFAULT else metrics

    executor = formulas(swells)
    executor.enforces_limits = False
    tune = measured(TWO_PARTS, executor=executor, memory_limit=400 * MiB)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    assert choice.judged.metrics.peak_host_bytes <= 400 * MiB


def test_a_default_that_fails_in_the_verification_leaves_the_choice_what_it_was(measured, formulas) -> None:
    def swell(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return larger(metrics, 200 * MiB) if before and request.config == DEFAULT else metrics

    tune = measured(MODE1, executor=formulas(swell), memory_limit=400 * MiB)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    assert choice.judged.metrics.test_accuracy == 0.5  # by formula: that of its whole training
    assert (choice.default, choice.against) == (None, None)


def test_the_largest_peak_seen_counts_never_a_median(measured, formulas) -> None:
    def once(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return larger(metrics, 50 * MiB) if request.config == MODE1 and before == 5 else metrics

    tune = measured(MODE1, executor=formulas(once), memory_limit=400 * MiB)
    usual = tune.history.measured()[1].metrics.peak_host_bytes
    choice = verify(tune.history, tune.runner)
    assert choice.judged.metrics.peak_host_bytes == choice.judged.figures.peak_host_bytes == usual + 50 * MiB
    assert choice.against.memory == pytest.approx((usual + 50 * MiB) / choice.default.metrics.peak_host_bytes)


def forgetting(lost: float, configs: tuple[object, ...]) -> Alter:
    """Takes `lost` from what `configs` learn with other seeds than the task's, 0."""

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.setting.task.seed == 0 or request.config not in configs:
            return metrics
        return dataclasses.replace(metrics, curve=learned(max(metrics.curve.val_accuracy) - lost))

    return alter


def test_accuracy_is_judged_on_the_mean_difference_over_the_seeds(measured, formulas) -> None:
    # MODE1 learns 0.9, 0.84 and 0.84 with the three seeds, 4 points less in the mean; 2.5 are allowed.
    tune = measured(TWO_PARTS, MODE1, executor=formulas(forgetting(0.06, (MODE1,))))
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS
    why = "accuracy 1.5 points under the least allowed, 87.50% in the mean of 3 seeds"
    assert note(tune, choice, MODE1) == f"rejected: {why}"
    # Where the default loses as much with these seeds, nothing is lost against it.
    tune = measured(TWO_PARTS, MODE1, executor=formulas(forgetting(0.06, (MODE1, DEFAULT))))
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    assert choice.against.accuracy == pytest.approx((0.0, 0.0, 0.0, SEEDS), abs=1e-9)


def test_a_target_that_was_asked_for_is_to_be_reached_in_the_mean(measured, formulas) -> None:
    both = forgetting(0.06, (MODE1, DEFAULT))
    tune = measured(TWO_PARTS, MODE1, executor=formulas(both), target_accuracy=87.5)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == TWO_PARTS


@pytest.mark.parametrize(
    ("options", "remedy"), [({"target_accuracy": 95.0}, "target_accuracy=88"), ({}, "max_accuracy_drop=2.01")]
)
def test_a_target_that_nothing_reaches_names_the_one_that_would_be(measured, options: dict, remedy: str) -> None:
    tune = measured(TWO_PARTS, fixed=(("num_partitions", 2),), **({"max_accuracy_drop": 1.0} | options))
    with pytest.raises(InfeasibleError) as caught:
        verify(tune.history, tune.runner)
    assert str(caught.value).endswith(f"With the other limits as they are, {remedy}")


@pytest.mark.parametrize("options", [{"target_accuracy": 95.0}, {"max_accuracy_drop": 1.0}])
def test_where_no_curve_has_a_point_no_target_is_named_that_would_be_reached(measured, formulas, options: dict) -> None:
    def no_point(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return metrics if request.config == DEFAULT else dataclasses.replace(metrics, curve=NO_CURVE)

    tune = measured(TWO_PARTS, executor=formulas(no_point), fixed=(("num_partitions", 2),), **options)
    with pytest.raises(InfeasibleError, match=r"It takes longer training .*: a larger budget, as a duration$"):
        verify(tune.history, tune.runner)


@pytest.mark.parametrize(("factor", "differs"), [(1.0, True), (0.7, False)])
def test_one_of_five_blocks_that_the_default_wins_makes_the_default_the_choice(
    measured, formulas, factor: float, differs: bool
) -> None:
    def once_slow(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return faster(metrics, factor) if request.config == MODE1 and before == LEAST_PAIRS else metrics

    tune = measured(MODE1, executor=formulas(once_slow))
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == (MODE1 if differs else DEFAULT)
    against = choice.against if differs else choice.no_gain.against
    assert against.throughput.median == pytest.approx(1.3)
    assert against.throughput.low == pytest.approx(1.3 * factor)
    assert against.differs is differs


def test_what_its_blocks_find_no_better_than_the_default_is_not_chosen(measured, formulas) -> None:
    def tires(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return faster(metrics, 0.5) if request.config == MODE1 and before > 2 else metrics

    tune = measured(MODE1, executor=formulas(tires))
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    assert choice.against is None
    assert choice.no_gain.config == MODE1
    assert choice.no_gain.against.throughput.median == pytest.approx(0.65)
    assert note(tune, choice, MODE1) == "no measurable gain over the baseline"


@pytest.mark.parametrize("no_gain", [True, False])
def test_of_a_default_that_is_the_choice_the_figures_are_one(measured, formulas, no_gain: bool) -> None:
    def slower(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.plan.curve is not None and not request.plan.curve.whole:
            return metrics
        return faster(metrics, 0.5 if request.config == DEFAULT else 0.3)  # than both were in their first trials

    options = {} if no_gain else {"max_accuracy_drop": 1.0}
    tune = measured(MODE1 if no_gain else TWO_PARTS, executor=formulas(slower), **options)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    tuned = finish(tune.history, choice, SearchSummary("ei"), tune.runner).tuned
    assert tuned.measured.throughput_epochs_per_s == pytest.approx(0.5)
    assert tuned.default == tuned.measured


def test_the_default_that_is_the_choice_is_compared_with_nothing(measured, formulas) -> None:
    tune = measured(TWO_PARTS, executor=formulas(), max_accuracy_drop=1.0)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    assert (choice.against, choice.default) == (None, None)
    assert tune.executor.whole == []  # its trial was its training


def test_by_time_the_fastest_to_the_target_is_chosen(measured, formulas) -> None:
    def slow_start(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, setup_seconds=2.0) if request.config == MODE1 else metrics

    options = {"executor": formulas(slow_start), "max_accuracy_drop": 5.0}
    by_time = measured(MODE1, TWO_PARTS, priority=Priority.parse("time"), **options)
    choice = verify(by_time.history, by_time.runner)
    assert choice.trial.measurement.config == TWO_PARTS  # 30 mini-batches: 2.5 s, and 2 + 2.3 s
    assert choice.judged.figures.seconds_to_accuracy == pytest.approx(2.5)
    assert choice.against.time.median == pytest.approx(1.2)
    assert choice.against.differs


def test_the_choice_is_on_the_front_whatever_single_trials_say(measured, formulas) -> None:
    def lucky(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        once = request.config == DISK and not before
        return dataclasses.replace(faster(metrics, 9.0), peak_host_bytes=200 * MiB) if once else metrics

    tune = measured(DISK, TWO_PARTS, FOUR_PARTS, MODE1, executor=formulas(lucky), max_accuracy_drop=5.0)
    choice = verify(tune.history, tune.runner)
    front = measured_front(tune.history, choice)
    chosen = next(row for row in front.rows if "chosen" in row.labels)
    assert chosen.on_front
    assert "throughput" in chosen.labels
    costs = tune.history.objectives.measured_costs([row.measured for row in front.rows if row.on_front])
    assert non_dominated(costs).all()
    assert [row.on_front for row in front.rows if not row.compared] == [False] * sum(
        not row.compared for row in front.rows
    )


def test_what_is_at_the_target_later_than_the_default_is_not_chosen_for_its_throughput(measured, formulas) -> None:
    def late(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, setup_seconds=3.0) if request.config == TWO_PARTS else metrics

    tune = measured(TWO_PARTS, MODE1, executor=formulas(late))
    history = tune.history
    assert {one.trial.measurement.config for one in history.eligible()} == {DEFAULT, MODE1}
    choice = verify(history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    assert note(tune, choice, TWO_PARTS) == "at the target later than the baseline"
    without = measured(TWO_PARTS, MODE1, executor=formulas(late), fixed=(("num_partitions", 2),))
    assert without.history.latest_s is None  # the default may not be chosen, so it is no alternative
    assert verify(without.history, without.runner).trial.measurement.config == TWO_PARTS


def test_what_turns_out_late_makes_the_default_the_choice(measured, formulas) -> None:
    def late(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        slow = request.config == MODE1 and before > 2
        return dataclasses.replace(metrics, setup_seconds=5.0) if slow else metrics

    tune = measured(MODE1, executor=formulas(late))
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == DEFAULT
    assert choice.no_gain.against.throughput.median == pytest.approx(1.3)
    assert choice.no_gain.against.time.high < 1
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    shown = " ".join(repr(result).split())
    assert "no measurable gain, the baseline stays" in shown
    assert "best other" in shown
    assert "Changed" not in shown
    assert result.summary.notes[0] == f"the best other is {describe_config(MODE1)}"
    assert result.to_dict()["no_gain"] == choice.no_gain.to_dict()
    assert TunedConfig.read(result.folder).no_gain == choice.no_gain.to_dict()
    assert NoGain.from_dict(choice.no_gain.to_dict()) == choice.no_gain


def test_what_turns_out_late_hands_over_to_the_next_contender(measured, formulas) -> None:
    def late(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        slow = request.config == FOUR_PARTS and before > 1
        return dataclasses.replace(metrics, setup_seconds=5.0) if slow else metrics

    tune = measured(MODE1, FOUR_PARTS, executor=formulas(late), max_accuracy_drop=5.0)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    assert choice.against.differs
    assert note(tune, choice, FOUR_PARTS) == "at the target later than the baseline"
    assert "    rejected: at the target later than the baseline" in tune.lines


def test_what_misses_the_target_comes_last_whatever_its_speed(measured, formulas) -> None:
    def misses(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        lost = 0.5 if request.config == FOUR_PARTS and request.setting.task.seed else 0.0
        return dataclasses.replace(metrics, curve=learned(max(metrics.curve.val_accuracy) - lost))

    options = {"priority": Priority.parse("time"), "max_accuracy_drop": 5.0}
    tune = measured(MODE1, FOUR_PARTS, executor=formulas(misses), **options)
    choice = verify(tune.history, tune.runner)
    assert choice.trial.measurement.config == MODE1
    assert not any("rejected" in line for line in tune.lines)  # one seed refuses no one
    assert note(tune, choice, FOUR_PARTS) == "not the best when measured again"


def test_a_machine_that_has_become_slow_leaves_the_only_trial_its_accuracy(quick_tune, formulas) -> None:
    """Its curve has one point, which the reference's seconds no longer reach when it is trained again."""

    def slow(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        curve = LearningCurve((60, 80), (0.5, 0.5), CurveEnd.BUDGET)
        explores = request.plan.curve is not None and not request.plan.curve.whole
        return dataclasses.replace(faster(metrics, 1.0 if explores else 0.5), curve=curve)

    result = quick_tune(budget=0.1, executor=formulas(slow))
    (row,) = result.front.rows
    assert (row.on_front, row.note, row.measured.val_accuracy) == (True, "", 0.5)


def test_a_configuration_that_was_tried_again_has_one_row(measured, formulas) -> None:
    tune = measured(DEFAULT, DEFAULT, MODE1, executor=formulas())
    rows = [row for row in measured_front(tune.history).rows if row.config == DEFAULT]
    assert len(rows) == 1
    assert rows[0].note == ""
    again = measured(DEFAULT, executor=formulas())
    front = measured_front(again.history, verify(again.history, again.runner))
    assert [(row.labels[:2], row.on_front) for row in front.rows] == [(("chosen", "default"), True)]


def test_a_default_that_may_not_be_chosen_does_not_push_the_choice_off_the_front(measured, formulas) -> None:
    def slow(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return larger(faster(metrics, 0.1), 900 * MiB) if request.config == TWO_PARTS else metrics

    tune = measured(TWO_PARTS, executor=formulas(slow), max_accuracy_drop=9.0, fixed=(("num_partitions", 2),))
    rows = {row.config: row for row in measured_front(tune.history, verify(tune.history, tune.runner)).rows}
    assert rows[TWO_PARTS].on_front
    assert (rows[DEFAULT].compared, rows[DEFAULT].on_front) == (False, False)
    assert rows[DEFAULT].note.startswith("outside what")


def test_rows_timed_before_the_verification_have_the_machines_speed_in_it(measured) -> None:
    tune = measured(TWO_PARTS, FOUR_PARTS, MODE1, budget=5, trial_s=2.0)
    choice = verify(tune.history, tune.runner)
    own = tune.history.reference_figures
    again = dataclasses.replace(own, throughput_epochs_per_s=2 * own.throughput_epochs_per_s)
    faster = dataclasses.replace(choice, figures={DEFAULT.key(): again})
    before = {row.config: row.measured for row in measured_front(tune.history).rows}
    for row in measured_front(tune.history, faster).rows:
        expected = 1.0 if row.config == DEFAULT else before[row.config].throughput_epochs_per_s
        shown = row.measured.throughput_epochs_per_s / (again.throughput_epochs_per_s if row.config == DEFAULT else 2)
        assert shown == pytest.approx(expected)
