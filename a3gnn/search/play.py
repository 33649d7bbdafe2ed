"""Lets a searcher ask and tells it, until its budget is spent."""

from __future__ import annotations

from a3gnn.search.evaluation_cache import EvaluationCache
from a3gnn.search.searcher import Searcher

#: Rows asked for at a time. Guess.
_BATCH = 64


def play(searcher: Searcher, cache: EvaluationCache, evaluations: int) -> None:
    """Lets `searcher` ask `cache` until the budget is spent or the space is exhausted."""
    while len(cache) < evaluations:
        rows = searcher.ask(min(_BATCH, evaluations - len(cache)))
        if not len(rows):
            break
        searcher.tell(rows, cache(rows))
