"""Quality of predicted links with times, in batches that see earlier links alone; and of scores without a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.evaluation.heuristics import popularity, repetition
from a3gnn.evaluation.link_quality import Scores, pair_scores, random_targets
from a3gnn.evaluation.ranking import Ranks, Score, rank_pairs
from a3gnn.evaluation.tally import RANKING
from a3gnn.graphs.links import Links
from a3gnn.metric import RANK_METRICS

#: Links of a batch: the batch size of the Temporal Graph Benchmark (Huang et al., 2023).
EVENTS = 200

#: Returns the scores of a batch, whose links are the argument; they see only what is earlier than its first link.
ScoresOfBatch = Callable[[NDArray[np.int32]], Scores]


def event_quality(
    metric: str,
    scores_of: ScoresOfBatch,
    links: Links,
    ids: NDArray[np.int32],
    *,
    seed: int,
    block: str | int = "64MiB",
) -> float:
    """Returns the quality of scores on the pairs `ids`, in batches of `EVENTS` in the order of time.

    A query is one end of a pair at a time. Ranking metrics use all its candidates, in both directions if both ends have
    the same type; its other true pairs at this time are no competitors, earlier ones are. ROC AUC and average precision
    compare each pair with one random target for its source that is no true one at its time.

    Args:
        metric: A name in `RANK_METRICS`, roc_auc or average_precision.
        scores_of: Returns the scores of a batch; they are used before the next call.
        links: All pairs, with times.
        ids: The pairs to be judged, at least one, ascending.
        seed: Decides the random targets.
        block: Most memory of a block of scores.
    """
    batches = [ids[first : first + EVENTS] for first in range(0, len(ids), EVENTS)]
    if metric in RANK_METRICS:
        found, first = list[Ranks](), 0
        for some in batches:
            scores = scores_of(some)
            for are_heads in links.directions:
                found.append(_ranks(scores(are_heads), links, some, are_heads, first, block))
                first += len(some)
        names = ("filtered", "among_true", "queries", "candidates")
        return Ranks(*(np.concatenate([getattr(one, name) for one in found]) for name in names)).metric(metric)
    others, values = random_targets(metric, links, ids, ids[:0], seed), []
    for some, wrong in zip(batches, np.split(others, range(EVENTS, len(ids), EVENTS)), strict=True):
        queries, targets = links.queries(some, True)
        both = np.concatenate([queries, queries]), np.concatenate([targets, wrong])
        values.append(pair_scores(scores_of(some)(True), *both, links.num_candidates(True)).reshape(2, -1))
    true, false = np.concatenate(values, axis=1)
    return RANKING[metric](np.arange(2 * len(ids)) < len(ids), np.concatenate([true, false]))


def _ranks(score: Score, links: Links, ids: NDArray[np.int32], are_heads: bool, first: int, block: str | int) -> Ranks:
    """Returns the ranks of a batch in one direction, with queries counted from `first`.

    Links of the same times in other batches are no competitors either.
    """
    distinct, pairs = links.at_once(ids, are_heads)
    of_query, own, others = torch.from_numpy(distinct), pairs[:, : len(ids)], pairs[:, len(ids) :]

    def of_places(places: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
        return score(of_query[places], some)

    found = rank_pairs(of_places, own, links.num_candidates(are_heads), [others], block=block)
    return Ranks(found.filtered, found.among_true, found.queries + first, found.candidates)


def event_heuristics(
    metric: str, links: Links, ids: NDArray[np.int32], times: NDArray[Any], *, seed: int, block: str | int
) -> dict[str, float]:
    """Returns the qualities of scores without a model, by their names.

    Repetition is EdgeBank (Poursafaei et al., 2022, section 4), with counts, and popularity among equals. A window
    has the links of as much time before a batch as the pairs `ids` span. `times` are the distinct ones that the ranks
    of `links` count; other arguments are as in `event_quality`.
    """
    assert links.ranks is not None
    ranks = links.ranks
    span = times[ranks[ids[-1]]] - times[ranks[ids[0]]]

    def of(kind: str, *, window: bool) -> ScoresOfBatch:
        def scores_of(batch: NDArray[np.int32]) -> Scores:
            rank = ranks[batch[0]]
            oldest = np.searchsorted(times, times[rank] - span) if window else 0
            known = np.arange(*np.searchsorted(ranks, [oldest, rank]))

            def score(are_heads: bool) -> Score:
                pairs, candidates = links.queries(known, are_heads), links.num_candidates(are_heads)
                if kind == "popularity":
                    return popularity(pairs, candidates)
                return repetition(pairs, links.num_queries(are_heads), candidates)

            return score

        return scores_of

    names = {"popularity": "popularity", "repeats": "repetition"}
    named = {f"{kind}{' in a window' * window}": of(kind, window=window) for kind in names for window in (False, True)}
    return {name: event_quality(metric, one, links, ids, seed=seed, block=block) for name, one in named.items()}
