"""The lines that a tune prints about a trial."""

from __future__ import annotations

from a3gnn.measurement import Failure
from a3gnn.report.text import describe_breaches, describe_config, describe_metrics
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
        so_far = f"best so far {describe_metrics(best.metrics, history.objectives.memory)}"
    head = f"trial {budget.trials} ({trial.reason})" if trial.counts else f"{trial.reason:8}"
    what = describe_config(trial.measurement.config)
    return f"{head} {what}\n    -> {_found(trial, history)}\n    [{so_far}, {budget.describe()}]"


def describe_failure(failure: Failure) -> str:
    """Returns `failure` in one line."""
    return f"{failure.kind.replace('_', ' ')}: {failure.detail.strip().splitlines()[-1]}"


def _found(trial: Trial, history: History) -> str:
    outcome = trial.measurement.outcome
    if isinstance(outcome, Failure):
        return describe_failure(outcome)
    broken = describe_breaches(history.objectives.limits.broken_by(outcome))
    found = describe_metrics(outcome, history.objectives.memory)
    return found + (f"\n       breaks a limit: {broken}" if broken else "")
