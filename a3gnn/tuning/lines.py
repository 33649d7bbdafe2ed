"""The lines that a tune prints about a trial."""

from __future__ import annotations

from a3gnn.figures import Figures
from a3gnn.learning_curve import CurveEnd
from a3gnn.measurement import Failure
from a3gnn.report.text import describe_breaches, describe_config, describe_figures
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.history import History
from a3gnn.tuning.trial import Trial


def describe_trial(trial: Trial, history: History, budget: Budget) -> str:
    """Returns three lines: what ran, what it found and which limits it breaks, and how the tune stands after it."""
    best = history.best()
    if best is None:
        so_far = "nothing fits yet"
    elif best.trial is trial:
        so_far = "the best so far"
    else:
        so_far = f"best so far {_described(best.figures, history)}"
    head = f"trial {budget.trials} ({trial.reason})" if trial.counts else f"{trial.reason:8}"
    what = describe_config(trial.measurement.config)
    return f"{head} {what}\n    -> {_found(trial, history)}\n    [{so_far}, {budget.describe()}]"


def _found(trial: Trial, history: History) -> str:
    outcome, figures = trial.measurement.outcome, history.figures(trial)
    if isinstance(outcome, Failure) or figures is None:
        return outcome.describe() if isinstance(outcome, Failure) else ""
    found = _described(figures, history)
    lost = outcome.curve is not None and outcome.curve.ended is CurveEnd.LOST
    if lost and figures.seconds_to_accuracy is None:
        found += "\n       ended early: it could no longer win or reach the target"
    breaches = history.objectives.limits.broken_by(figures)
    if lost and figures.val_accuracy is None:  # it ended before any accuracy was known
        breaches = tuple(breach for breach in breaches if breach.limit != "least_accuracy")
    broken = describe_breaches(breaches)
    return found + (f"\n       breaks a limit: {broken}" if broken else "")


def _described(figures: Figures, history: History) -> str:
    objectives = history.objectives
    return describe_figures(figures, objectives.memory, objectives.speed, objectives.limits.least_accuracy)
