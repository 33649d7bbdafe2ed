"""`predicted_best`: the configuration of which the best is predicted among those that probably keep the limits."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.limits import FEASIBLE
from a3gnn.prediction import Prediction
from a3gnn.search.evaluation_cache import EvaluationCache
from a3gnn.search.play import play
from a3gnn.search.searcher import make_searcher
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.expectations import smallest_memory
from a3gnn.tuning.nothing_predicted import nothing_predicted
from a3gnn.tuning.outlook import Outlook
from a3gnn.tuning.propose import SEARCH_EVALUATIONS
from a3gnn.tuning.simplify import simplified


def predicted_best(outlook: Outlook) -> TrainConfig:
    """Returns the configuration with the best predicted score of the priority, of all that a search looked at.

    Of those that keep each limit with a probability of `FEASIBLE`. The search is for the predicted front, as in a tune;
    from the best that it saw, steps of one knob each lead on as long as they gain. The default, which loses nothing
    against itself, is looked at too if the space holds it. Knobs that are predicted to gain nothing go back to their
    defaults (`simplified`).

    Raises:
        InfeasibleError: Nothing that was looked at is so probable.
    """
    problem, seed = outlook.problem, outlook.history.study.request.seed
    cache = EvaluationCache(problem)
    engine = outlook.history.study.request.engine
    searched = dataclasses.replace(problem, predict=cache)
    play(make_searcher(engine, searched, seed, evaluations=SEARCH_EVALUATIONS), cache, SEARCH_EVALUATIONS)
    default = outlook.history.row(TrainConfig().canonical())
    if default is not None:
        cache(default[None])
    if _best(outlook, cache) is None:  # the front need not hold what takes the least memory
        smallest = smallest_memory(outlook.fitted, outlook.history)
        assert smallest is not None, "nothing is measured, so every configuration is left"
        cache(outlook.space.encode(smallest)[None])
    best, before = _best(outlook, cache), None
    while best is not None and (before is None or (best != before).any()):
        cache(outlook.space.neighbours(best))
        best, before = _best(outlook, cache), best
    if best is None:
        raise nothing_predicted(outlook, cache)

    def probable(rows: Rows) -> NDArray[np.float64]:
        return probability_of_keeping(outlook, rows, cache(rows))

    return outlook.space.decode(simplified(best, searched, probable, set())).canonical()


def _best(outlook: Outlook, cache: EvaluationCache) -> Rows | None:
    """Returns the row of the best score that probably keeps the limits, the first of equals; None without one."""
    probable = np.flatnonzero(probability_of_keeping(outlook, cache.rows, cache.prediction))
    if not len(probable):
        return None
    score = outlook.objectives.score(cache.prediction)
    return np.asarray(cache.rows[probable[score[probable].argmax()]])


def probability_of_keeping(outlook: Outlook, rows: Rows, prediction: Prediction) -> NDArray[np.float64]:
    """Returns with which probability each of `rows` keeps all limits; 0 where that of one is less than `FEASIBLE`.

    The default surely keeps the accuracy, which is held against its own.
    """
    kept = outlook.keeping(prediction)
    kept["least_accuracy"] = np.where(outlook.is_default(rows), 1.0, kept["least_accuracy"])
    each = np.stack(list(kept.values()))
    return np.where((each >= FEASIBLE).all(axis=0), each.prod(axis=0), 0.0)
