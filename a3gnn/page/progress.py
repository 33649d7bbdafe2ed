"""How a study came to its best configuration: the regret after each trial, and the front as it was predicted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from a3gnn.measurement import METRICS
from a3gnn.page.stored_study import Measured
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.tuning.predicted_front import read_predicted_front
from a3gnn.tuning.trial import Predicted


def regret_views(measured: Measured) -> list[dict[str, Any]]:
    """Returns a dict per trial: the seconds that all trials took by then, the best measured so far, and its regret.

    The regret is the priority's score of the best trial of all less that of that one, both as judged now. It
    is None before anything keeps the limits. What the best possible configuration would reach is not known.
    """
    history = measured.history
    eligible = history.eligible()
    scores = history.objectives.measured_score([one.figures for one in eligible]) if eligible else ()
    score_of = {id(one.trial): float(score) for one, score in zip(eligible, scores, strict=True) if np.isfinite(score)}
    most, took_s, best, at = max(score_of.values(), default=0.0), 0.0, -np.inf, None
    found = []
    for index, trial in enumerate(measured.trials):
        took_s += trial.measurement.seconds
        score = score_of.get(id(trial), -np.inf)
        if score > best:
            best, at = score, index
        found.append({"index": index, "took_s": took_s, "best": at, "regret": None if at is None else most - best})
    return found


def predicted_front(measured: Measured) -> dict[str, Any]:
    """Returns the feasible front that the last search predicted; of an older tune, or before a search, of its trials.

    Its `points` have each metric's mean, low and high; its `name` says what it is the front of.
    """
    found = read_predicted_front(measured.tune.folder)
    if found is not None:
        return {"name": "front that the last search predicted", "points": found}
    return {"name": "front of what was predicted of the trials", "points": _of_trials(measured)}


def _of_trials(measured: Measured) -> list[Predicted]:
    """Returns the front of what was predicted of the trials, each before it ran, without what breaks a limit."""
    history = measured.history
    known = [i for i, trial in enumerate(measured.trials) if set(METRICS) <= set(trial.predicted)]
    if not known:
        return []
    bounds = [
        np.array([[measured.trials[i].predicted[metric][bound] for metric in METRICS] for i in known])
        for bound in ("mean", "low", "high")
    ]
    prediction, objectives = Prediction(*bounds), history.objectives
    if history.reference is not None:  # as the search judges them
        due_s = history.reference.budget_s if history.latest_s is None else history.latest_s
        prediction = dataclasses.replace(prediction, default_accuracy=history.reference.val_accuracy, budget_s=due_s)
    kept = np.flatnonzero(objectives.limits.violation(prediction) == 0)
    kept = kept[non_dominated(objectives.costs(prediction)[kept])] if len(kept) else kept
    return [measured.trials[known[i]].predicted for i in kept]
