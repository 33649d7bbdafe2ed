"""The front of what a tune has measured, and the volume that it dominates."""

from __future__ import annotations

import numpy as np

from a3gnn.pareto import hypervolume
from a3gnn.report.front import Front
from a3gnn.report.front_row import MeasuredConfig
from a3gnn.tuning.choice import Choice
from a3gnn.tuning.history import History

#: The hypervolume's reference point is the first measurement's costs (-log2 throughput, log2 memory, -accuracy) plus
#: this. Guess.
_REFERENCE_MARGIN = np.array([3.0, 3.0, 0.1])


def measured_front(history: History, choice: Choice | None = None) -> Front:
    """Returns the front of everything that was measured, with what the play-off made of the finalists."""
    figures, notes = (choice.figures, choice.notes) if choice else ({}, {})
    found = []
    for trial, _, own in history.measured():
        config = trial.measurement.config
        key = config.key()
        found.append(MeasuredConfig(config, figures.get(key, own), trial.predicted, notes.get(key, ""), key in figures))
    return Front.of(found, history.objectives, choice.trial.measurement.config if choice else None)


def measured_hypervolume(history: History) -> float:
    """Returns the volume that the feasible trials dominate, up to a reference behind the first of them."""
    kept = [one.figures for one in history.feasible()]
    if not kept:
        return 0.0
    costs = history.objectives.measured_costs(kept)
    return hypervolume(costs, costs[0] + _REFERENCE_MARGIN)
