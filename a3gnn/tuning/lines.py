"""The lines that a tune prints about a trial."""

from __future__ import annotations

from a3gnn.figures import Figures
from a3gnn.learning_curve import CurveEnd
from a3gnn.measurement import Failure
from a3gnn.report.text import describe_breaches, describe_config, describe_figures
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.history import History
from a3gnn.tuning.trial import JudgedTrial, Trial

#: Why a trial's curve was trained no further.
_ENDED_EARLY = {
    CurveEnd.SLOWER: "it could no longer beat the best so far",
    CurveEnd.LOST: "it could no longer reach the {limit}",
}


def describe_trial(trial: Trial, history: History, budget: Budget) -> str:
    """Returns three lines: what ran, what it found and which limits it breaks, and how the tune stands after it."""
    best = history.best()
    if best is None:
        so_far = "nothing fits yet"
    elif best.trial is trial:
        so_far = "the best measured so far"
    else:
        so_far = f"best measured so far {_described(best.figures, history)}"
    head = f"trial {budget.trials} ({trial.reason})" if trial.counts else f"{trial.reason:8}"
    what = describe_config(trial.measurement.config)
    return f"{head} {what}\n    -> {_found(trial, history)}\n    [{so_far}, {budget.describe()}]"


def _found(trial: Trial, history: History) -> str:
    metrics, figures = trial.metrics, history.figures(trial)
    if metrics is None or figures is None:
        outcome = trial.measurement.outcome
        return outcome.describe() if isinstance(outcome, Failure) else ""
    found = _described(figures, history)
    ended = None if metrics.curve is None else metrics.curve.ended
    metric = history.objectives.metric
    limit = f"{metric.extreme} {metric.label}" + ("" if metric.larger_is_better else " that is allowed")
    if ended in _ENDED_EARLY and figures.seconds_to_accuracy is None:
        found += f"\n       ended early: {_ENDED_EARLY[ended].format(limit=limit)}"
    broken = describe_breaches(history.breaches(JudgedTrial(trial, metrics, figures)))
    return found + (f"\n       breaks a limit: {broken}" if broken else "")


def _described(figures: Figures, history: History) -> str:
    objectives = history.objectives
    return describe_figures(
        figures, objectives.memory, objectives.speed, objectives.metric, objectives.limits.least_accuracy
    )
