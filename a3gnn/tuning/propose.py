"""From what is known to what is measured next: one search of the predicted front, and the choice of trials in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from a3gnn.prediction import Prediction
from a3gnn.search.problem import Problem
from a3gnn.search.result import SearchResult
from a3gnn.search.run import run_search
from a3gnn.seeding import derive
from a3gnn.tuning.acquisition import Candidate, Rows, best_neighbours, choose_trials
from a3gnn.tuning.context import context_features
from a3gnn.tuning.expectations import predict
from a3gnn.tuning.history import History
from a3gnn.tuning.proposal import Proposal
from a3gnn_surrogate.surrogate import Surrogate

#: Surrogate evaluations per search: ppo reaches the whole front of the toy with them (docs/search.md).
SEARCH_EVALUATIONS = 3_000
#: Trials per search. Guess.
ROUND_TRIALS = 4


class Proposed(NamedTuple):
    """What to measure next, most wanted first, and the search that found it."""

    proposals: tuple[Proposal, ...]
    search: SearchResult


def propose(history: History, surrogate: Surrogate) -> Proposed:
    """Returns what to measure next; nothing when all of interest is measured.

    That is what `choose_trials` takes of the front that a search finds on the predictions, and where this is too
    little, neighbours of the best trial.
    """
    study, seen = history.study, history.seen()
    problem = _problem(history, surrogate)
    seed = derive(study.request.seed, "search", len(history.trials))
    result = run_search(study.request.engine, problem, SEARCH_EVALUATIONS, seed, study.policy)
    fresh = np.flatnonzero([row.tobytes() not in seen for row in result.rows])
    chosen = choose_trials(problem, result.rows[fresh], result.prediction.take(fresh), ROUND_TRIALS)
    best = history.best()
    if len(chosen) < ROUND_TRIALS and best is not None:
        row = history.row(best.trial.measurement.config)
        assert row is not None, "the best is inside the space"
        seen |= {candidate.row.tobytes() for candidate in chosen}
        around = best_neighbours(problem, row, seen)
        chosen += [Candidate("neighbour", other) for other in around[: ROUND_TRIALS - len(chosen)]]
    return Proposed(tuple(Proposal(one.reason, history.space.decode(one.row)) for one in chosen), result)


def _problem(history: History, surrogate: Surrogate) -> Problem:
    """Returns what is searched after `history`, as `surrogate` predicts it."""

    def predict_rows(rows: Rows) -> Prediction:
        return predict(surrogate, history, history.space.columns(rows))

    features = context_features(history.study.setting)
    return Problem(history.space, predict_rows, history.objectives, features)
