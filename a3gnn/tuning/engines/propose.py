"""`propose`: searches the predicted front once, and chooses the next trials from it."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from a3gnn.prediction import Prediction
from a3gnn.search.problem import Problem
from a3gnn.search.result import SearchResult
from a3gnn.search.run import run_search
from a3gnn.seeding import derive
from a3gnn.space import Rows
from a3gnn.tuning.beliefs.expectations import believed, expected_trials_s, predict, tried_rows, unmeasured
from a3gnn.tuning.engines.acquisition import Expected, choose_trials
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Proposal
from a3gnn_surrogate.points import knob_points
from a3gnn_surrogate.surrogate import Surrogate

#: Surrogate evaluations per search. With this many, local finds at least 97 % of the best known front's hypervolume in
#: one second, in default spaces of millions (docs/design/search.md).
SEARCH_EVALUATIONS = 3_000
#: Most trials in a round. Guess.
ROUND_TRIALS = 4
#: Sampled rows of the space that are considered beside the search's front: its rows are not dominated, but may be
#: improbable. Guess.
_SAMPLE_SIZE = 2_000


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
    around = found[:0] if row is None else history.space.neighbours(row)
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
