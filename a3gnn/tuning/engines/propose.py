"""From what is known to what is measured next: one search of the predicted front, and the choice of trials in it."""

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

#: Surrogate evaluations per search: with them local finds 97 % and more of the best known front's hypervolume in a
#: second, in default spaces of millions (docs/search.md).
SEARCH_EVALUATIONS = 3_000
#: Trials of a round at most. Guess.
ROUND_TRIALS = 4
#: Rows of the space that are considered beside what the search finds, which is there to be dominated by none, not to be
#: probable. Guess.
_SAMPLE_SIZE = 2_000


class Proposed(NamedTuple):
    """What to measure next.

    Attributes:
        proposals: Most wanted first.
        gain: By how many doublings of the priority's score the most wanted one is expected to improve, times its
            probability of keeping the limits; infinite where nothing probably keeps them.
        search: The search that found them.
    """

    proposals: tuple[Proposal, ...]
    gain: float
    search: SearchResult


def propose(history: History, surrogate: Surrogate, trials: int | None = None) -> Proposed:
    """Returns what to measure next; nothing when all is measured.

    That is what `choose_trials` takes of what is not tried yet of the front that a search finds on the predictions, of
    the best trial's neighbours, and of a sample of the space. Knobs that are predicted to gain nothing stay as they
    are found there: whether they do is what a trial is for.

    Args:
        history: Of the tune so far.
        surrogate: Fitted to it.
        trials: How many at most; by default `round_trials`.
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
    """Returns how many trials the next round has: as many as there were, from one to `ROUND_TRIALS`.

    The first tell most of those that follow (docs/acquisition.md), and it is not worth a fit to each of many.
    """
    return min(max(sum(trial.counts for trial in history.trials), 1), ROUND_TRIALS)


def candidates(history: History, found: Rows, surrogate: Surrogate) -> Rows:
    """Returns what may be proposed, distinct and untried, int64, shape (n, n_knobs).

    That is what a search `found`, the neighbours of the trial that is `believed` to be the best, and a sample of the
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
    """Returns the priority's best score of what is eligible; None before anything is, and has one.

    As predicted after all trials: of many that were measured once, that which measured best was lucky as well.
    """
    judged, objectives = history.ranked(), history.objectives
    if not judged:
        return None
    scored = np.isfinite(objectives.measured_score([one.figures for one in judged]))  # not all reach the target yet
    rows = [history.row(one.trial.measurement.config) for one, has in zip(judged, scored, strict=True) if has]
    inside = [row for row in rows if row is not None]
    return float(objectives.score(problem.predict(np.stack(inside))).max()) if inside else None


def problem_of(history: History, surrogate: Surrogate) -> Problem:
    """Returns what is searched after `history`, as `surrogate` predicts it.

    The target is to be reached within the reference's seconds; where what is later may not be chosen
    (`History.latest_s`), no later than that.
    """

    def predict_rows(rows: Rows) -> Prediction:
        found = predict(surrogate, history, history.space.columns(rows))
        if found.budget_s is None or history.latest_s is None:
            return found
        return dataclasses.replace(found, budget_s=history.latest_s)

    return Problem(history.space, predict_rows, history.objectives)
