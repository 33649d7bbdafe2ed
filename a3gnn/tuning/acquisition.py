"""Which configurations to measure next."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.limits import Limits
from a3gnn.objectives import Objectives
from a3gnn.pareto import non_dominated, spread
from a3gnn.prediction import Prediction
from a3gnn.search.problem import Problem
from a3gnn.tuning.learning_differently import learning_differently
from a3gnn_envs.normal import gain_per_second, probability_at_most
from a3gnn_surrogate.posterior import rbf_kernel

Rows = NDArray[np.int64]

#: What is recommended without a trial keeps the limits on memory with this probability: no trial finds out that it does
#: not.
LEAST_PROBABILITY = 0.8
#: What is proposed is more likely than not to keep all limits. A trial that breaks one ends early, while what surely
#: keeps them on an unseen graph are twins of the default, which gain nothing (docs/acquisition.md). Guess.
LIKELY = 0.5
#: What is recommended without a trial keeps the least accuracy with this probability. Chosen on three measured grids:
#: with 0.55, 0.6 and 0.65, 94, 98 and 97 % keep all limits (docs/acquisition.md).
UNTRIED = 0.6
#: Where what is likely to keep the least accuracy is expected to gain less than `WORTHWHILE` doublings of the score,
#: which is a tenth, that may be as improbable as this: trials that surely keep it and gain nothing decide nothing.
#: Guesses.
BOLD, WORTHWHILE = 0.25, math.log2(1.1)
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

    Of those that keep all limits with a probability of `LIKELY`, or where none of them is expected to gain
    `WORTHWHILE`, those on memory with that and all with `BOLD`: the ones of the largest `gain_per_second` ("best"), no
    two of which learn the same, each after the first as if those before it had been found as predicted (Ginsbourger, Le
    Riche and Carraro, "Kriging Is Well-Suited to Parallelize Optimization", 2010, section 3.2: the kriging believer),
    as long as they are expected to gain `MIN_GAIN`; then a max-min spread over the predicted front of the rest
    ("front"). Where none is that probable: the most probable ones ("closest").

    Args:
        problem: What is searched, and for what.
        rows: Distinct candidates, int64, shape (n, n_knobs).
        expected: Of `rows`.
        count: How many to choose.
        best: The score to be improved upon, without a measurement's noise; None takes the lowest predicted one of
            `rows`.
    """
    limits, prediction = problem.objectives.limits, expected.prediction
    probability = feasibility(prediction, limits)
    in_memory = feasibility(prediction, dataclasses.replace(limits, least_accuracy=None))
    score = problem.objectives.score(prediction)
    best = float(score.min(initial=np.inf)) if best is None else best
    deviation = true_spread(problem.objectives, expected)
    value = gain_per_second(score, deviation, best, probability, expected.seconds)
    gain = value * expected.seconds
    probable = _worth_the_risk(gain, np.where(in_memory >= LIKELY, probability, 0.0))
    if not len(probable):
        violation = problem.objectives.limits.violation(prediction)
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


def _worth_the_risk(gain: NDArray[np.float64], probability: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the positions of what is probable enough to be measured, int64.

    That is with `LIKELY`; where nothing of that is worthwhile and something of `BOLD` is, with that; with either where
    there is nothing of the other.
    """
    likely, bold = (np.flatnonzero(probability >= level) for level in (LIKELY, BOLD))
    worthwhile = (found for found in (likely, bold) if gain[found].max(initial=0.0) >= WORTHWHILE)
    return next(worthwhile, likely if len(likely) else bold)


def true_spread(objectives: Objectives, expected: Expected) -> NDArray[np.float64]:
    """Returns the standard deviation of each true score, float64, shape (n,): intervals are of measurements.

    The noise of a trial's speed is taken out of them: to expect an improvement from noise is to measure what is known.
    0 where the interval is no wider than the noise.
    """
    noise = expected.noise / np.log(2) * objectives.priority.throughput
    return np.asarray(np.sqrt(np.maximum(objectives.score_spread(expected.prediction) ** 2 - noise**2, 0.0)))


def feasibility(prediction: Prediction, limits: Limits) -> NDArray[np.float64]:
    """Returns the probability that each configuration keeps all `limits`, float64, shape (n_configs,).

    What is lost of accuracy (`Prediction.lost`) and the logarithms of memory and seconds are taken to be normal on the
    side of the limit, with independent errors. The least accuracy is kept where it is reached within the default's
    seconds: the prediction of accuracy and that of the seconds both say whether, and the geometric mean of the two
    counts: what one of them rules out is out. Where no seconds are predicted (`Prediction.budget_s`), the accuracy
    alone counts.
    """
    kept = keeping(prediction, limits)
    return np.asarray(np.prod([np.ones(len(prediction)), *kept.values()], axis=0))


def keeping(prediction: Prediction, limits: Limits) -> dict[str, NDArray[np.float64]]:
    """Returns the probability that each configuration keeps each limit, by the limit's name in `Limits`.

    Only limits that are set have one, float64, shape (n_configs,). The arguments are those of `feasibility`.
    """
    found = {}
    for metric, name in (("peak_host_bytes", "host_bytes"), ("peak_device_bytes", "device_bytes")):
        limit = getattr(limits, name)
        if limit is not None:
            found[name] = _at_most(limit, prediction, metric)
    if limits.least_accuracy is not None:
        lost = prediction.lost(prediction.column("val_accuracy"))
        deviation = prediction.one_sided("val_accuracy", "low")
        reached = probability_at_most(float(prediction.lost(limits.least_accuracy)), lost, deviation)
        if prediction.budget_s is not None:
            reached = np.sqrt(reached * _at_most(prediction.budget_s, prediction, "seconds_to_accuracy"))
        found["least_accuracy"] = reached
    return found


def _at_most(limit: float, prediction: Prediction, metric: str) -> NDArray[np.float64]:
    """Returns the probability that a positive metric is at most `limit`, float64, shape (n_configs,)."""
    logs = np.log(np.maximum(prediction.column(metric), 1e-9))  # a device that is not there has no bytes
    return probability_at_most(float(np.log(limit)), logs, prediction.one_sided(metric, "high"))


def unmeasured(rows: Rows, measured: set[bytes]) -> Rows:
    """Returns `rows` without those whose bytes are in `measured`."""
    keep = [row.tobytes() not in measured for row in rows]
    return rows[np.array(keep, dtype=np.bool_)]
