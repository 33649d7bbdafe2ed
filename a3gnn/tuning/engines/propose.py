"""`propose`: searches the predicted front once, and chooses the next trials from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.objectives import Objectives
from a3gnn.pareto import non_dominated, spread
from a3gnn.prediction import Prediction
from a3gnn.search.run import SearchResult, run_search
from a3gnn.search.searchable import Problem
from a3gnn.seeding import derive
from a3gnn.space import Rows
from a3gnn.tuning.beliefs.expectations import believed, expected_trials_s, predict, tried_rows, unmeasured
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Proposal
from a3gnn_envs.normal import gain_per_second
from a3gnn_surrogate.points import knob_points
from a3gnn_surrogate.posterior import rbf_kernel
from a3gnn_surrogate.surrogate import Surrogate

#: Surrogate evaluations per search. With this many, local finds at least 97 % of the best known front's hypervolume in
#: one second, in default spaces of millions (docs/design/search.md).
SEARCH_EVALUATIONS = 3_000
#: Most trials in a round. Guess.
ROUND_TRIALS = 4
#: Sampled rows of the space that are considered beside the search's front: its rows are not dominated, but may be
#: improbable. Guess.
_SAMPLE_SIZE = 2_000
T = TypeVar("T")
#: A trial that is not expected to improve on the best by this share serves the front instead of the priority. Guess.
MIN_GAIN = 0.01


class Proposed(NamedTuple):
    """The trials to run next.

    Attributes:
        proposals: Most wanted first.
        gain: Expected improvement of the most wanted one, in doublings of the priority's score, times its probability
            of keeping the limits; infinite if no candidate probably keeps them.
        search: The search that found the candidates.
    """

    proposals: tuple[Proposal, ...]
    gain: float
    search: SearchResult


def propose(history: History, surrogate: Surrogate, trials: int | None = None) -> Proposed:
    """Returns the trials to run next; none if everything is measured.

    `choose_trials` chooses them among untried rows of the predicted front, neighbors of the best trial, and a sample of
    the space. Knobs that are predicted to gain nothing are not reset, because the trial is there to test them.

    Args:
        history: Of the tune so far.
        surrogate: Fitted to `history`.
        trials: Most trials; by default `round_trials`.
    """
    study = history.study
    problem = problem_of(history, surrogate)
    seed = derive(study.request.seed, "search", len(history.trials))
    first = not any(trial.counts for trial in history.trials)
    result = run_search(study.request.engine, problem, SEARCH_EVALUATIONS, seed, beside_random=first)
    rows = candidates(history, result.rows, surrogate)
    if not len(rows):
        return Proposed((), 0.0, result)
    prediction = problem.predict(rows)
    known_curve = surrogate.knows_curve(history.space.columns(rows), study.setting)
    seconds = expected_trials_s(history, known_curve, prediction)
    points = knob_points(history.space.columns(rows), study.setting)
    expected = Expected(prediction, seconds, surrogate.noise(study.setting.hardware), points)
    trials = round_trials(history) if trials is None else trials
    chosen = choose_trials(problem, rows, expected, trials, best_score(history, problem))
    gain = max((math.inf if one.reason == "closest" else one.gain for one in chosen), default=math.inf)
    proposals = (Proposal(one.reason, history.space.decode(one.row)) for one in chosen)
    return Proposed(tuple(proposals), gain, result)


def round_trials(history: History) -> int:
    """Returns the size of the next round: as many trials as there were so far, from one to `ROUND_TRIALS`.

    The first trials teach most about later ones (docs/design/acquisition.md). Later, a fit after every trial is not
    worth it.
    """
    return min(max(sum(trial.counts for trial in history.trials), 1), ROUND_TRIALS)


def candidates(history: History, found: Rows, surrogate: Surrogate) -> Rows:
    """Returns the distinct untried rows that may be proposed, int64, shape (n, n_knobs).

    They are the rows `found` by a search, the neighbors of the trial `believed` to be the best, and a sample of the
    space, in this order.
    """
    best = next(iter(believed(history, surrogate)), None)
    row = None if best is None else history.row(best.trial.measurement.config)
    around = found[:0] if row is None else history.space.neighbors(row)
    seed = derive(history.study.request.seed, "candidates", len(history.trials))
    everything = np.concatenate([found, around, history.space.sample(_SAMPLE_SIZE, seed)])
    _, first = np.unique(everything, axis=0, return_index=True)
    return unmeasured(everything[np.sort(first)], tried_rows(history))


def best_score(history: History, problem: Problem) -> float | None:
    """Returns the priority's best predicted score of the eligible trials; None before one has a measured score.

    Scores are predicted after all trials, because the best of many single measurements was also lucky.
    """
    judged, objectives = history.ranked(), history.objectives
    if not judged:
        return None
    scored = np.isfinite(objectives.measured_score([one.figures for one in judged]))  # not all reach the target yet
    rows = [history.row(one.trial.measurement.config) for one, has in zip(judged, scored, strict=True) if has]
    inside = [row for row in rows if row is not None]
    return float(objectives.score(problem.predict(np.stack(inside))).max()) if inside else None


def problem_of(history: History, surrogate: Surrogate) -> Problem:
    """Returns the search problem after `history`, with the predictions of `surrogate`.

    The target must be reached within the reference's seconds, or by `History.latest_s` if later configurations may not
    be chosen.
    """

    def predict_rows(rows: Rows) -> Prediction:
        found = predict(surrogate, history, history.space.columns(rows))
        if found.budget_s is None or history.latest_s is None:
            return found
        return dataclasses.replace(found, budget_s=history.latest_s)

    return Problem(history.space, predict_rows, history.objectives)


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


def learning_differently(items: Iterable[T], config: Callable[[T], TrainConfig], count: int) -> list[T]:
    """Returns the first `count` items with distinct learning keys; if there are fewer, adds the first duplicates.

    Args:
        items: Most wanted first; not read further than needed.
        config: Returns an item's configuration.
        count: Most items to return.
    """
    seen, different, others = set(), list[T](), list[T]()
    for item in items:
        key = config(item).learning_key()
        (others if key in seen else different).append(item)
        seen.add(key)
        if len(different) == count:
            break
    return [*different, *others][:count]
