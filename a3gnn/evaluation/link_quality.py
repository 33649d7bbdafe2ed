"""Quality of link predictions: ranks of true pairs among all candidates, and the same for scores without a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import GraphError
from a3gnn.evaluation.heuristics import item_neighbors, popularity
from a3gnn.evaluation.inference import CHUNK_BYTES
from a3gnn.evaluation.ranking import Ranks, Score, rank_pairs
from a3gnn.evaluation.tally import RANKING
from a3gnn.graphs.links import Links
from a3gnn.metric import HEURISTICS, RANK_METRICS
from a3gnn.models.decoders import Decoder
from a3gnn.sampling.negatives import Negatives
from a3gnn.seeding import derive

#: Returns the score of a direction, whose queries are heads if its argument is True.
Scores = Callable[[bool], Score]
#: Most sums of pairs of edges that item neighbors may take: seconds. Guess.
_MOST_SUMS = 2e9
#: Scores of a block of whole queries, float32; a query may have more.
_SCORES = 2 * CHUNK_BYTES // 4


@dataclass(frozen=True, eq=False)
class LinkScores:
    """A trained model's scores of all pairs."""

    decoder: Decoder  # in evaluation mode
    heads: Tensor  # the rows of all sources, float32, shape (num_sources, width)
    tails: Tensor  # the rows of all targets, on the same device

    def __call__(self, are_heads: bool) -> Score:
        """Returns the score of queries that are heads, or tails."""
        own, other = (self.heads, self.tails) if are_heads else (self.tails, self.heads)
        device = own.device

        def score(queries: Tensor, candidates: Tensor) -> Tensor:
            relations, ends = (one(queries, len(own)).to(device) for one in (_quotient, torch.remainder))
            first, last = int(candidates[0]), int(candidates[-1]) + 1  # consecutive
            return self.decoder.block(own[ends], other[first:last], relations, are_heads=are_heads)

        return score


def _quotient(numbers: Tensor, size: int) -> Tensor:
    return torch.div(numbers, size, rounding_mode="floor")


def link_quality(
    metric: str,
    scores: Scores,
    links: Links,
    ids: NDArray[np.int32],
    known: NDArray[np.int32],
    *,
    seed: int,
    block: str | int = "64MiB",
) -> float:
    """Returns the quality of scores on the pairs `ids`.

    Ranking metrics use all candidates of each query, in both directions if both ends have the same type. ROC AUC and
    average precision compare each pair with one random target for its source that is none of the pairs.

    Args:
        metric: A name in `RANK_METRICS`, roc_auc or average_precision.
        scores: The scores.
        links: All pairs.
        ids: The pairs to be judged, at least one.
        known: Further true pairs, which are no competitors.
        seed: Decides the random targets.
        block: Most memory of a block of scores.
    """
    if metric in RANK_METRICS:
        return ranks_of(scores, links, ids, known, block).metric(metric)
    return _against_random(metric, scores, links, ids, known, seed)


def ranks_of(
    scores: Scores, links: Links, ids: NDArray[np.int32], known: NDArray[np.int32], block: str | int = "64MiB"
) -> Ranks:
    """Returns the ranks of the pairs `ids` in all directions; see `link_quality`."""
    found, first = list[Ranks](), 0
    for are_heads in links.directions:
        pairs = [links.queries(some, are_heads) for some in (ids, known)]
        one = rank_pairs(scores(are_heads), pairs[0], links.num_candidates(are_heads), pairs[1:], block=block)
        found.append(Ranks(one.filtered, one.among_true, one.queries + first, one.candidates))
        first += links.num_queries(are_heads)
    names = ("filtered", "among_true", "queries", "candidates")
    return Ranks(*(np.concatenate([getattr(one, name) for one in found]) for name in names))


def heuristic_qualities(
    metric: str, links: Links, ids: NDArray[np.int32], known: NDArray[np.int32], *, seed: int, block: str | int
) -> dict[str, float]:
    """Returns the qualities of scores without a model, by their names; see `link_quality` for the arguments.

    The scores use the `known` pairs. Item neighbors are left out if they would take long.
    """
    found = {name: heuristic_scores(name, links, known) for name in HEURISTICS if is_quick(name, links, known)}
    return {name: link_quality(metric, one, links, ids, known, seed=seed, block=block) for name, one in found.items()}


def heuristic_scores(name: str, links: Links, known: NDArray[np.int32]) -> Scores:
    """Returns the scores of a name in `HEURISTICS` by the `known` pairs, without a model."""

    def score(are_heads: bool) -> Score:
        queries, wide = links.queries(known, are_heads), links.num_candidates(are_heads)
        if name == HEURISTICS[0]:
            return popularity(queries, wide)
        return item_neighbors(queries, links.num_queries(are_heads), wide)

    return score


def is_quick(name: str, links: Links, known: NDArray[np.int32]) -> bool:
    """Returns whether scores without a model take seconds; item neighbors sum over pairs of a candidate's links."""
    degrees = [np.bincount(links.queries(known, are_heads)[1]).astype(np.float64) for are_heads in links.directions]
    return name == HEURISTICS[0] or sum(float((one**2).sum()) for one in degrees) <= _MOST_SUMS


def _against_random(
    metric: str, scores: Scores, links: Links, ids: NDArray[np.int32], known: NDArray[np.int32], seed: int
) -> float:
    queries, targets = links.queries(ids, True)
    others = random_targets(metric, links, ids, known, seed)
    both = np.concatenate([queries, queries]), np.concatenate([targets, others])
    found = pair_scores(scores(True), *both, links.num_candidates(True))
    return RANKING[metric](np.arange(len(found)) < len(ids), found)


def random_targets(
    metric: str, links: Links, ids: NDArray[np.int32], known: NDArray[np.int32], seed: int
) -> NDArray[np.int32]:
    """Returns a random target for the source of each of the pairs `ids`, none of which is one of `ids` or `known`.

    Raises:
        GraphError: A source has all targets.
    """
    if links.ranks is None:
        pairs, size = links.queries(np.concatenate([ids, known]), True), links.num_queries(True)
    else:
        distinct, pairs = links.at_once(ids, True)
        size = len(distinct)
    draws = Negatives.avoiding(derive(seed, "random targets"), pairs, size, links.num_candidates(True))
    others = draws.targets(pairs[0, : len(ids)].astype(np.int32), None, 0, 0)
    if others.min() < 0:
        raise GraphError(f"{metric} needs a target that is no pair of each source, got a source with all targets")
    return others


def pair_scores(
    score: Score, queries: NDArray[np.int64], candidates: NDArray[np.int64], num_candidates: int
) -> NDArray[np.float32]:
    """Returns the score of each pair; `score` computes whole queries."""
    distinct, place = np.unique(queries, return_inverse=True)
    step, found = max(1, _SCORES // num_candidates), np.empty(len(queries), dtype=np.float32)
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(0, len(distinct) + step, step))
    for number, first in enumerate(range(0, len(distinct), step)):
        with torch.no_grad():
            block = score(torch.from_numpy(distinct[first : first + step]), torch.arange(num_candidates)).cpu().numpy()
        members = order[ends[number] : ends[number + 1]]
        found[members] = block[place[members] - first, candidates[members]]
    return found
