"""The line of each trial of a tune."""

import dataclasses
import re

import pytest

from a3gnn.learning_curve import NO_CURVE, CurveEnd
from a3gnn.measurement import Metrics
from a3gnn.metric import ACCURACY
from a3gnn.notify import shown
from a3gnn.objectives import Priority
from a3gnn.profiling.request import TrialRequest
from a3gnn.report.text import describe_config
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.tell.events import BEST, TrialRow
from a3gnn.tuning.tell.trial_lines import heading, trial_message
from tests.tuning.measured import MODE1, TWO_PARTS
from tests.tuning.verify.test_ends import rising


def test_a_trial_has_one_line_and_the_best_so_far_a_mark(measured) -> None:
    history = measured(TWO_PARTS, MODE1).history
    messages = [trial_message(trial, history, Budget(5)) for trial in history.trials]
    baseline, slower, best = map(shown, messages)
    assert all("\n" not in line for line in (baseline, slower, best))
    assert [BEST in line for line in (baseline, slower, best)] == [False, False, True]
    assert baseline.startswith("baseline")
    assert "batch 1024, fanouts " in baseline
    assert best.endswith("workers 2 (sample + gather)")
    assert "1.30x" in best
    assert not any(line.endswith(" left") for line in (baseline, slower, best))


@pytest.mark.parametrize(("priority", "heads"), [("accuracy", True), ("0.2,0.2,0.6", True), ("balanced", False)])
def test_lines_have_accuracy_where_it_weighs_most(measured, priority: str, heads: bool) -> None:
    history = measured(TWO_PARTS, priority=Priority.parse(priority)).history
    figures, baseline = map(history.figures, reversed(history.trials))
    line = shown(trial_message(history.trials[-1], history, Budget(5)))
    assert ("accuracy" in shown(heading(history))) is heads
    assert (ACCURACY.show(figures.val_accuracy) in line) is heads
    assert (f"{100 * (figures.val_accuracy - baseline.val_accuracy):+.2f}" in line) is heads


def test_verbose_lines_have_all_figures_and_the_best_so_far(measured) -> None:
    """A tune that is stopped chooses the best as believed, which need not be the luckiest trial."""
    history = measured(TWO_PARTS, MODE1).history
    messages = [trial_message(trial, history, Budget(5)) for trial in history.trials]
    verbose = [shown(message, verbose=True) for message in messages]
    assert all("epochs/s" in text and "validation accuracy" in text for text in verbose)
    assert ["best so far: " in text for text in verbose] == [True, True, False]
    assert "tried as: best" in verbose[2]


def test_a_line_says_whether_a_trial_was_too_late_or_too_slow_to_be_trained(measured, formulas) -> None:
    def late(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, curve=rising(500, 0.5, 0.9)) if request.config == TWO_PARTS else metrics

    history = measured(TWO_PARTS, executor=formulas(late)).history
    trial = history.trials[1]
    assert trial.metrics.curve.ended is CurveEnd.SLOWER
    assert shown(trial_message(trial, history, Budget(5))).endswith(" (late)")
    untrained = dataclasses.replace(trial.metrics, curve=dataclasses.replace(NO_CURVE, ended=CurveEnd.SLOWER))
    slow = dataclasses.replace(trial, measurement=dataclasses.replace(trial.measurement, outcome=untrained))
    history = dataclasses.replace(history, trials=(history.trials[0], slow))
    assert "not trained: too slow" in shown(trial_message(slow, history, Budget(5)))


WIDE = TWO_PARTS.replace(
    batch_size=8192,
    seed_fanout=5,
    compute_dtype="bfloat16",
    cache_bytes=2**20,
    cache_policy="fifo",
    feature_tier="disk",
).canonical()


def test_a_line_fits_80_columns_and_verbose_has_what_was_cut(measured) -> None:
    history = measured(WIDE).history
    message = trial_message(history.trials[-1], history, Budget(240.0))
    line, more = shown(message), shown(message, verbose=True)
    assert len(line) <= 80
    assert "\n" not in line
    kept, number = re.fullmatch(r".*  (batch 8192, .*), \+(\d) more(?: \(.*\))?", line).groups()
    whole = describe_config(WIDE)
    knobs = whole.split(", ")
    assert sorted(kept.split(", "), key=knobs.index) == kept.split(", ")
    assert len(kept.split(", ")) + int(number) == len(knobs)
    assert f"    {whole}" in more


@pytest.mark.parametrize("width", range(44, 130))
def test_a_row_is_never_wider_than_asked_and_names_why_it_ended(width: int) -> None:
    row = TrialRow("#107", True, "12.3 s", "0.52x", "1023 MiB", describe_config(WIDE), "host memory +12.0 MiB")
    line = row.within(width)
    assert len(line) <= width
    assert line == row.columns or line.endswith(("(host memory +12.0 MiB)", "..."))
    assert line.startswith(f"#107     {BEST}")


def test_a_long_knob_leaves_room_for_the_short_ones_after_it() -> None:
    row = TrialRow("#2", False, "not reached", "", "439 MiB", "workers 1 (sample + gather), fanout 5, lr x4", "late")
    assert row.within(75).endswith("439 MiB  fanout 5, lr x4, +1 more (late)")


def test_every_tenth_line_has_what_is_left(measured) -> None:
    history = measured(TWO_PARTS, MODE1).history
    trial = history.trials[-1]
    many = dataclasses.replace(history, trials=(history.trials[0], *[trial] * 10))
    assert shown(trial_message(trial, many, Budget(240.0))).endswith(" left")
    assert len(shown(trial_message(trial, many, Budget(240.0)))) <= 80
