"""The line of each trial of a tune."""

import dataclasses

from a3gnn.learning_curve import NO_CURVE, CurveEnd
from a3gnn.measurement import Metrics
from a3gnn.notify import shown
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.tell.events import BEST
from a3gnn.tuning.tell.trial_lines import trial_message
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
    assert "workers 2 (sample + gather) · " in best
    assert "1.30x" in best
    assert best.endswith(" left")


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
    assert shown(trial_message(trial, history, Budget(5))).count("stopped early: too late") == 1
    untrained = dataclasses.replace(trial.metrics, curve=dataclasses.replace(NO_CURVE, ended=CurveEnd.SLOWER))
    slow = dataclasses.replace(trial, measurement=dataclasses.replace(trial.measurement, outcome=untrained))
    history = dataclasses.replace(history, trials=(history.trials[0], slow))
    assert "not trained: too slow" in shown(trial_message(slow, history, Budget(5)))
