"""What a tune says of a trial."""

from __future__ import annotations

from a3gnn.measurement import Failure
from a3gnn.report.text import describe_breaches, describe_config, describe_metrics
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.history import History
from a3gnn.tuning.journal import Probe


def describe_trial(probe: Probe, history: History, budget: Budget) -> str:
    """Returns three lines: what ran, what it found and which limits it breaks, and how the tune stands after it."""
    best = history.best()
    if best is None:
        so_far = "nothing fits yet"
    elif best[0] is probe:
        so_far = "the best so far"
    else:
        so_far = f"best so far {describe_metrics(best[1], history.memory)}"
    head = f"trial {budget.trials} ({probe.reason})" if probe.counts else f"{probe.reason:8}"
    what = describe_config(probe.measurement.config)
    return f"{head} {what}\n    -> {_found(probe, history)}\n    [{so_far}, {budget.describe()}]"


def describe_failure(failure: Failure) -> str:
    """Returns `failure` in one line."""
    return f"{failure.kind.replace('_', ' ')}: {failure.detail.strip().splitlines()[-1]}"


def _found(probe: Probe, history: History) -> str:
    outcome = probe.measurement.outcome
    if isinstance(outcome, Failure):
        return describe_failure(outcome)
    broken = describe_breaches(history.limits.broken_by(outcome))
    return describe_metrics(outcome, history.memory) + (f"\n       breaks a limit: {broken}" if broken else "")
