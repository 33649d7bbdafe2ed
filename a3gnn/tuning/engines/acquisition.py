"""Acquisition: chooses the configurations to measure next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.objectives import Objectives
from a3gnn.pareto import non_dominated, spread
from a3gnn.prediction import Prediction
from a3gnn.search.problem import Problem
from a3gnn.space import Rows
from a3gnn_envs.normal import gain_per_second
from a3gnn_surrogate.posterior import rbf_kernel

Item = TypeVar("Item")
#: A trial that is not expected to improve on the best by this share serves the front instead of the priority. Guess.
MIN_GAIN = 0.01


class Candidate(NamedTuple):
    """A row to measure.

    Attributes:
        reason: best, front or closest.
        row: int64, shape (n_knobs,).
        gain: Its expected improvement in doublings of the score, assuming that earlier candidates turn out as
            predicted, times the probability of keeping the limits; 0 if reason is closest.
    """

    reason: str
    row: Rows
    gain: float = 0.0


class Expected(NamedTuple):
    """Expectations of trials.

    Attributes:
        prediction: Prediction of their configurations.
        seconds: Expected seconds of each trial, float64, shape (n,).
        noise: Relative standard deviation of one trial's throughput.
        points: Features of the configurations in the surrogate's Gaussian process, float64, shape (n, n_points). A
            trial also informs about configurations close to it.
    """

    prediction: Prediction
    seconds: NDArray[np.float64]
    noise: float
    points: NDArray[np.float64]


def choose_trials(
    problem: Problem,
    rows: Rows,
    expected: Expected,
    count: int,
    best: float | None,
) -> list[Candidate]:
    """Returns up to `count` of `rows` to measure, each with the reason.

    Among the rows that are predicted to keep the limits (`Limits.violation`), it takes:

    1. "best": the rows with the largest `gain_per_second`, as long as they are expected to gain `MIN_GAIN`. Their
       learning keys differ if possible. Each pick assumes that earlier picks turn out as predicted: the kriging
       believer (Ginsbourger, Le Riche and Carraro, "Kriging Is Well-Suited to Parallelize Optimization", 2010, section
       3.2).
    2. "front": a max-min spread over the predicted front of the rest.

    If no row is predicted to keep the limits, it takes the most probable ones ("closest").

    Args:
        problem: The space and the objectives.
        rows: Distinct candidates, int64, shape (n, n_knobs).
        expected: Expectations of `rows`.
        count: Number of rows to choose.
        best: The score to improve, without a measurement's noise; None takes the lowest predicted one of `rows`.
    """
    limits, prediction = problem.objectives.limits, expected.prediction
    probability, violation = limits.feasibility(prediction), limits.violation(prediction)
    score = problem.objectives.score(prediction)
    best = float(score.min(initial=np.inf)) if best is None else best
    deviation = true_spread(problem.objectives, expected)
    value = gain_per_second(score, deviation, best, probability, expected.seconds)
    gain = value * expected.seconds
    probable = np.flatnonzero(violation == 0)
    if not len(probable):
        return [Candidate("closest", rows[i]) for i in np.lexsort((-score, violation, -probability))[:count]]
    wanted: dict[int, float] = {}
    while len(wanted) < min(count, len(probable)):
        order = probable[np.lexsort((-score[probable], -value[probable]))]
        ahead = [*wanted, *(i for i in order.tolist() if i not in wanted)]
        most = learning_differently(ahead, lambda i: problem.space.decode(rows[i]), len(wanted) + 1)[-1]
        if gain[most] < math.log2(1 + MIN_GAIN):
            break
        wanted[most] = float(gain[most])
        best = max(best, float(score[most]))
        alike = rbf_kernel(expected.points, expected.points[[most]])[:, 0]
        deviation = deviation * np.sqrt(np.maximum(1 - alike**2, 0.0))
        value = gain_per_second(score, deviation, best, probability, expected.seconds)
        gain = value * expected.seconds
    chosen = [Candidate("best", rows[i], expected_gain) for i, expected_gain in wanted.items()]
    rest = np.setdiff1d(probable, list(wanted))
    if len(chosen) < count and len(rest):
        costs = problem.objectives.costs(prediction.take(rest))
        front = np.flatnonzero(non_dominated(costs))
        shown = rest[front[spread(costs[front], count - len(chosen))]]
        chosen += [Candidate("front", rows[i], float(gain[i])) for i in shown.tolist()]
    return chosen


def true_spread(objectives: Objectives, expected: Expected) -> NDArray[np.float64]:
    """Returns the standard deviation of each true score, float64, shape (n,).

    Predicted intervals are for measurements, so the noise of a trial's speed is removed from them. Otherwise noise
    would promise improvements, and known configurations would be measured again. 0 if the interval is no wider than
    the noise.
    """
    noise = expected.noise / np.log(2) * objectives.priority.throughput
    return np.asarray(np.sqrt(np.maximum(objectives.score_spread(expected.prediction) ** 2 - noise**2, 0.0)))


def learning_differently(items: Iterable[Item], config: Callable[[Item], TrainConfig], count: int) -> list[Item]:
    """Returns the first `count` items with distinct learning keys; if there are fewer, adds the first duplicates.

    Args:
        items: Most wanted first; not read further than needed.
        config: Returns an item's configuration.
        count: Most items to return.
    """
    seen, different, others = set(), list[Item](), list[Item]()
    for item in items:
        key = config(item).learning_key()
        (others if key in seen else different).append(item)
        seen.add(key)
        if len(different) == count:
            break
    return [*different, *others][:count]
