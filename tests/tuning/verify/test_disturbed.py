"""What a play-off makes of alternations that other work disturbed, and what is said of them; by formulas."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection

import pytest

from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.run.finish import finish
from a3gnn.tuning.run.plans import MOST_ALTERNATIONS, MOST_REPEATED, MOST_SEEDS
from a3gnn.tuning.study.comparison import ALTERNATIONS, Pair
from a3gnn.tuning.tell.summary import summary
from a3gnn.tuning.verify.play_off import play_off
from a3gnn.tuning.verify.remeasured import parted
from tests.tuning.measured import DEFAULT, MODE1, Measured

MiB = 2**20
#: A budget in seconds that is never used up.
LONG = {"budget": 600.0, "trial_s": 2.0}
Alter = Callable[[TrialRequest, Metrics, int], Metrics]


def disturbing(when: Collection[int]) -> Alter:
    """Disturbs the default in timings whose number, from 0 on, is in `when`: it is four times as slow.

    All take more memory in these.
    """
    timed: Counter[str] = Counter()

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.plan.curve is not None:
            return metrics
        timed[request.config.key()] += 1
        if timed[request.config.key()] - 1 not in when:
            return metrics
        metrics = dataclasses.replace(metrics, peak_host_bytes=metrics.peak_host_bytes + 100 * MiB)
        speed = metrics.throughput_epochs_per_s / 4
        slow = {"throughput_epochs_per_s": speed, "throughput_replicates": (speed,), "disturbed_windows": 4}
        return dataclasses.replace(metrics, **slow) if request.config == DEFAULT else metrics

    return alter


def told(tune: Measured) -> list[str]:
    """Plays off and finishes the tune; returns the lines that say how the choice compares."""
    choice = play_off(tune.history, tune.runner)
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    return [line for line in (*result.summary.warnings, *result.summary.notes) if "other programs" in line]


def after_rounds(count: int) -> range:
    """The first `count` timings of the default in alternations; with one finalist, rounds time it twice."""
    return range(2, 2 + count)


def test_disturbed_alternations_are_left_out_where_enough_are_not(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(after_rounds(6))), **LONG)
    choice = play_off(tune.history, tune.runner)
    undisturbed = MOST_ALTERNATIONS - 6
    assert choice.against.throughput == pytest.approx((1.3, 1.3, 1.3, undisturbed))
    assert choice.against.left_out == 6
    assert choice.against.disturbed == 6 / (2 * MOST_ALTERNATIONS)
    # What is shown of both is what the ratios are of, but for memory.
    for judged, speed in ((choice.judged, 1.3), (choice.default, 1.0)):
        assert judged.metrics.throughput_replicates == pytest.approx((speed,) * undisturbed)
    for judged, before in zip((choice.default, choice.judged), tune.history.measured(), strict=True):
        assert judged.metrics.peak_host_bytes == before.metrics.peak_host_bytes + 100 * MiB
    assert choice.against.memory == choice.judged.figures.peak_host_bytes / choice.default.figures.peak_host_bytes


def test_where_too_few_are_undisturbed_the_seconds_that_are_left_alternate_on(measured, formulas) -> None:
    disturbed = MOST_ALTERNATIONS + 3
    tune = measured(MODE1, executor=formulas(disturbing(after_rounds(disturbed))), **LONG)
    choice = play_off(tune.history, tune.runner)
    assert choice.against.throughput == pytest.approx((1.3, 1.3, 1.3, ALTERNATIONS))
    assert choice.against.left_out == disturbed
    assert choice.against.accuracy.repeats == 1 + MOST_SEEDS


def test_a_machine_that_is_never_quiet_ends_that_and_all_count(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(range(1000))), **LONG)
    choice = play_off(tune.history, tune.runner)
    assert choice.against.throughput == pytest.approx((5.2, 5.2, 5.2, MOST_ALTERNATIONS + MOST_REPEATED))
    assert (choice.against.left_out, choice.against.disturbed) == (0, 0.5)
    assert choice.against.accuracy.repeats == 1 + MOST_SEEDS


def test_a_budget_in_trials_has_no_seconds_for_that(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(after_rounds(2))))
    choice = play_off(tune.history, tune.runner)
    assert choice.against.throughput.repeats == ALTERNATIONS
    assert (choice.against.left_out, choice.against.disturbed) == (0, 2 / (2 * ALTERNATIONS))


@pytest.mark.parametrize(
    ("disturbed", "words"),
    [
        (2, []),  # a fifth of the timings
        (3, ["disturbed 30% of these timings; on a quiet machine"]),
        (5, ["disturbed 50% of these timings; on a quiet machine"]),
    ],
)
def test_what_other_work_took_part_in_is_said(measured, formulas, disturbed: int, words: list[str]) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(after_rounds(disturbed))))
    lines = told(tune)
    assert len(lines) == len(words)
    for line, part in zip(lines, words, strict=True):
        assert part in line
        assert "resume=True with a larger budget measures them again" in line
    tuned = TunedConfig.read(tune.runner.folder)
    assert tuned.against_default["disturbed"] == disturbed / (2 * ALTERNATIONS)


def test_what_is_left_out_is_said_instead(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(after_rounds(1 + MOST_ALTERNATIONS))), **LONG)
    assert told(tune) == [f"{1 + MOST_ALTERNATIONS} runs that other programs disturbed do not count in the ratios"]


def test_a_file_from_before_says_nothing_of_it(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(after_rounds(5))))
    assert told(tune)
    tuned = TunedConfig.read(tune.runner.folder)
    old = {name: value for name, value in tuned.against_default.items() if name not in ("disturbed", "left_out")}
    front = Front.read(tune.runner.folder)
    found = summary(dataclasses.replace(tuned, against_default=old), front)
    assert any(line.label == "epochs per second" and "x" in line.change for line in found.table)
    assert not any("other programs" in text for text in (*found.warnings, *found.notes))


def test_what_is_timed_alone_once_the_default_fails_is_no_pair_and_counts_for_nothing(measured, formulas) -> None:
    failing = after_rounds(2).stop  # the default's timing in the third alternation, after the choice's
    timed: Counter[str] = Counter()

    def fail(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.plan.curve is not None:
            return metrics
        timed[request.config.key()] += 1
        if timed[DEFAULT.key()] <= failing:
            return metrics
        if request.config == DEFAULT:
            return Failure(FailureKind.TIMEOUT, "took too long", 0, 600.0)
        return dataclasses.replace(metrics, throughput_epochs_per_s=1.1 * metrics.throughput_epochs_per_s)

    tune = measured(MODE1, executor=formulas(fail))
    choice = play_off(tune.history, tune.runner)
    assert choice.against.throughput == pytest.approx((1.3, 1.3, 1.3, 2))
    assert choice.judged.metrics.throughput_replicates == pytest.approx((1.3, 1.3))
    assert (
        len(tune.executor.timed) == 2 * 2 + 2 * ALTERNATIONS - 2
    )  # rounds, and alternations: the default's fail twice


def test_which_count_is_decided_by_how_many_are_undisturbed(make_metrics) -> None:
    quiet = make_metrics(1.0, 300 * MiB, 0.9)
    noisy = dataclasses.replace(quiet, disturbed_windows=1)
    pairs = [Pair(quiet, noisy), *[Pair(quiet, quiet)] * (ALTERNATIONS - 1), Pair(noisy, quiet)]
    assert parted(pairs) == (pairs, [])
    more = [*pairs, Pair(quiet, quiet)]
    assert parted(more) == ([Pair(quiet, quiet)] * ALTERNATIONS, [pairs[0], pairs[-1]])
