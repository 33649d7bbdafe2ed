"""Which configurations to measure next."""

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


def learning_differently(items: Iterable[Item], config: Callable[[Item], TrainConfig], count: int) -> list[Item]:
    """Returns the first `count` of `items` no two of which learn the same; where there are fewer, the next others too.

    Args:
        items: The most wanted first; not read further than needed.
        config: Gives an item's configuration.
        count: How many, at most.
    """
    seen, different, others = set(), list[Item](), list[Item]()
    for item in items:
        key = config(item).learning_key()
        (others if key in seen else different).append(item)
        seen.add(key)
        if len(different) == count:
            break
    return [*different, *others][:count]


#: A trial is expected to improve on the best by this share, or serves the front instead of the priority. Guess.
MIN_GAIN = 0.01


class Candidate(NamedTuple):
    """A row to measure.

    Attributes:
        reason: Why.
        row: int64, shape (n_knobs,).
        gain: Its expected improvement in doublings of the score, as if those before it had been found as predicted,
            times the probability of keeping the limits; 0 where nothing is probable ("closest").
    """

    reason: str
    row: Rows
    gain: float = 0.0


class Expected(NamedTuple):
    """What is expected of trials.

    Attributes:
        prediction: Of their configurations.
        seconds: That each trial takes, float64, shape (n,).
        noise: Relative standard deviation of one trial's throughput.
        points: The configurations as the surrogate's Gaussian process sees them, float64, shape (n, n_points): what is
            close to a trial is known by it.
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

    Of those that are predicted to keep the limits (`Limits.violation`): the ones of the largest `gain_per_second`
    ("best"), no two of which learn the same, each after the first as if those before it had been found as predicted
    (Ginsbourger, Le Riche and Carraro, "Kriging Is Well-Suited to Parallelize Optimization", 2010, section 3.2: the
    kriging believer), as long as they are expected to gain `MIN_GAIN`; then a max-min spread over the predicted front
    of the rest ("front"). Where nothing is: the most probable ones ("closest").

    Args:
        problem: What is searched, and for what.
        rows: Distinct candidates, int64, shape (n, n_knobs).
        expected: Of `rows`.
        count: How many to choose.
        best: The score to be improved upon, without a measurement's noise; None takes the lowest predicted one of
            `rows`.
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
    """Returns the standard deviation of each true score, float64, shape (n,): intervals are of measurements.

    The noise of a trial's speed is taken out of them: to expect an improvement from noise is to measure what is known.
    0 where the interval is no wider than the noise.
    """
    noise = expected.noise / np.log(2) * objectives.priority.throughput
    return np.asarray(np.sqrt(np.maximum(objectives.score_spread(expected.prediction) ** 2 - noise**2, 0.0)))
