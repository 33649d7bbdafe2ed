"""What a verification makes of blocks that other work disturbed, and what is said of them; by formulas."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection

import pytest

from a3gnn.figures import LEAST_PAIRS
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.run.blocks import MOST_BLOCKS, SEEDS
from a3gnn.tuning.run.finish import finish
from a3gnn.tuning.study.comparison import Pair
from a3gnn.tuning.tell.summary import summary
from a3gnn.tuning.verify.judged import judged_beside
from a3gnn.tuning.verify.verification import verify
from tests.tuning.formulas import learned
from tests.tuning.measured import DEFAULT, MODE1, Measured

MiB = 2**20
#: A budget in seconds that is never used up.
LONG = {"budget": 600.0, "trial_s": 2.0}
Alter = Callable[[TrialRequest, Metrics, int], Metrics]


def disturbing(when: Collection[int]) -> Alter:
    """Disturbs the default in blocks whose number, from 0 on, is in `when`: it is four times as slow.

    All take more memory in these.
    """
    blocks: Counter[str] = Counter()

    def alter(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        blocks[request.config.key()] += before > 0
        if not before or blocks[request.config.key()] - 1 not in when:
            return metrics
        metrics = dataclasses.replace(metrics, peak_host_bytes=metrics.peak_host_bytes + 100 * MiB)
        speed = metrics.throughput_epochs_per_s / 4
        slow = {"throughput_epochs_per_s": speed, "throughput_replicates": (speed,), "disturbed_windows": 4}
        return dataclasses.replace(metrics, **slow) if request.config == DEFAULT else metrics

    return alter


def told(tune: Measured) -> list[str]:
    """Verifies and finishes the tune; returns the lines that say how the choice compares."""
    choice = verify(tune.history, tune.runner)
    result = finish(tune.history, choice, SearchSummary("ei"), tune.runner)
    return [line for line in (*result.summary.warnings, *result.summary.notes) if "other programs" in line]


def test_disturbed_blocks_are_left_out_where_enough_are_not(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(range(6))), **LONG)
    choice = verify(tune.history, tune.runner)
    undisturbed = MOST_BLOCKS - 6
    assert choice.against.throughput == pytest.approx((1.3, 1.3, 1.3, undisturbed))
    assert choice.against.left_out == 6
    assert choice.against.disturbed == 6 / (2 * MOST_BLOCKS)
    # What is shown of both is what the ratios are of, but for memory.
    for judged, speed in ((choice.judged, 1.3), (choice.default, 1.0)):
        assert judged.metrics.throughput_replicates == pytest.approx((speed,) * undisturbed)
    for judged, before in zip((choice.default, choice.judged), tune.history.measured(), strict=True):
        assert judged.metrics.peak_host_bytes == before.metrics.peak_host_bytes + 100 * MiB
    assert choice.against.memory == choice.judged.figures.peak_host_bytes / choice.default.figures.peak_host_bytes


def test_where_too_few_are_undisturbed_all_count(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(range(MOST_BLOCKS - LEAST_PAIRS + 1))), **LONG)
    choice = verify(tune.history, tune.runner)
    assert choice.against.throughput.repeats == MOST_BLOCKS
    assert choice.against.throughput.median == pytest.approx(5.2)
    assert choice.against.left_out == 0
    assert choice.against.accuracy.repeats == SEEDS


@pytest.mark.parametrize(
    ("disturbed", "words"),
    [
        (2, []),  # a fifth of the runs
        (3, ["disturbed 30% of these timings; on a quiet machine"]),
        (5, ["disturbed 50% of these timings; on a quiet machine"]),
    ],
)
def test_what_other_work_took_part_in_is_said(measured, formulas, disturbed: int, words: list[str]) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(range(disturbed))))
    lines = told(tune)
    assert len(lines) == len(words)
    for line, part in zip(lines, words, strict=True):
        assert part in line
        assert "resume=True with a larger budget measures them again" in line
    tuned = TunedConfig.read(tune.runner.folder)
    assert tuned.against_default["disturbed"] == disturbed / (2 * LEAST_PAIRS)


def test_what_is_left_out_is_said_instead(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(range(MOST_BLOCKS - LEAST_PAIRS))), **LONG)
    left_out = MOST_BLOCKS - LEAST_PAIRS
    assert told(tune) == [f"{left_out} runs that other programs disturbed do not count in the ratios"]


def test_a_file_from_before_says_nothing_of_it(measured, formulas) -> None:
    tune = measured(MODE1, executor=formulas(disturbing(range(5))))
    assert told(tune)
    tuned = TunedConfig.read(tune.runner.folder)
    old = {name: value for name, value in tuned.against_default.items() if name not in ("disturbed", "left_out")}
    front = Front.read(tune.runner.folder)
    found = summary(dataclasses.replace(tuned, against_default=old), front)
    assert any(line.label == "epochs per second" and "x" in line.change for line in found.table)
    assert not any("other programs" in text for text in (*found.warnings, *found.notes))


def test_what_is_timed_alone_once_the_default_fails_is_no_pair_and_counts_for_nothing(measured, formulas) -> None:
    def fail(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if before <= 2:
            return metrics
        if request.config == DEFAULT:
            return Failure(FailureKind.TIMEOUT, "took too long", 0, 600.0)
        return dataclasses.replace(metrics, throughput_epochs_per_s=1.1 * metrics.throughput_epochs_per_s)

    tune = measured(MODE1, executor=formulas(fail))
    choice = verify(tune.history, tune.runner)
    assert choice.against.throughput == pytest.approx((1.3, 1.3, 1.3, 2))
    assert choice.judged.metrics.throughput_replicates == pytest.approx((1.3, 1.3))
    assert "    the baseline is rejected: timeout: took too long" in tune.lines


def test_which_count_is_decided_by_how_many_are_undisturbed(measured, make_metrics) -> None:
    quiet = dataclasses.replace(make_metrics(1.0, 300 * MiB, 0.0), curve=learned(0.9))
    noisy = dataclasses.replace(quiet, disturbed_windows=1)
    objectives = measured().history.objectives

    def left_out(pairs: list[Pair]) -> tuple[int, int]:
        against = judged_beside(pairs, pairs[:1], objectives, None).against
        return against.throughput.repeats, against.left_out

    pairs = [Pair(quiet, noisy), *[Pair(quiet, quiet)] * (LEAST_PAIRS - 1), Pair(noisy, quiet)]
    assert left_out(pairs) == (LEAST_PAIRS + 1, 0)
    assert left_out([*pairs, Pair(quiet, quiet)]) == (LEAST_PAIRS, 2)
