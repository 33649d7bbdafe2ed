"""Which configurations to measure next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.pareto import spread
from a3gnn.prediction import Prediction
from a3gnn.search.problem import Problem

Rows = NDArray[np.int64]


class Candidate(NamedTuple):
    """A row to measure, int64, shape (n_knobs,), and why."""

    reason: str
    row: Rows


def choose_trials(problem: Problem, rows: Rows, prediction: Prediction, count: int) -> list[Candidate]:
    """Returns up to `count` of `rows` to measure, each with the reason.

    Of those that are predicted to keep the limits: the best by the priority, then the one of the most uncertain
    throughput (where four or more are asked for), then a max-min spread over the predicted front. Where none is: those
    that break the limits least. The order and the four are guesses.

    Args:
        problem: What is searched, and for what.
        rows: What a search found and is not measured yet, int64, shape (n, n_knobs).
        prediction: Its prediction.
        count: How many to choose.
    """
    order = problem.objectives.order(prediction)
    feasible = problem.objectives.limits.violation(prediction) == 0
    if not feasible.any():
        return [Candidate("closest", rows[i]) for i in order[:count]]
    chosen = {int(order[0]): "best"}
    if count >= 4 and feasible.sum() > 1:
        width = np.log(prediction.column("throughput_epochs_per_s", "high"))
        width -= np.log(prediction.column("throughput_epochs_per_s", "low"))
        width[~feasible] = width[list(chosen)] = -np.inf
        chosen.setdefault(int(width.argmax()), "uncertain")
    rest = np.setdiff1d(np.flatnonzero(feasible), list(chosen))
    if len(chosen) < count and len(rest):
        costs = problem.objectives.costs(prediction.take(rest))
        chosen |= dict.fromkeys(rest[spread(costs, count - len(chosen))].tolist(), "front")
    return [Candidate(reason, rows[i]) for i, reason in list(chosen.items())[:count]]


def best_neighbours(problem: Problem, row: Rows, measured: set[bytes]) -> Rows:
    """Returns the neighbours of `row` that are worth measuring, int64, shape (n, n_knobs).

    Those that are not measured and predicted to keep the limits, best score first. Where none is, all that are not
    measured, those first that break the limits least: memory is judged by an upper bound, which they may well keep.
    """
    around = unmeasured(problem.space.neighbours(row), measured)
    if not len(around):
        return around
    prediction = problem.predict(around)
    order = problem.objectives.order(prediction)
    feasible = order[problem.objectives.limits.violation(prediction)[order] == 0]
    return around[feasible if len(feasible) else order]


def unmeasured(rows: Rows, measured: set[bytes]) -> Rows:
    """Returns `rows` without those whose bytes are in `measured`."""
    keep = [row.tobytes() not in measured for row in rows]
    return rows[np.array(keep, dtype=np.bool_)]
