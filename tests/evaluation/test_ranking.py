"""Ranks of pairs beside a plain reference, in blocks of any size; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score

from a3gnn import rank_pairs
from a3gnn.errors import UsageError
from a3gnn.evaluation.heuristics import item_neighbors, label_propagation, popularity, repetition

QUERIES, CANDIDATES = 13, 40


@pytest.fixture
def pairs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """True pairs to rank and known ones, distinct, of which some are in both."""
    draw = np.random.default_rng(0)
    keys = draw.permutation(QUERIES * CANDIDATES)
    true, known = keys[:60], np.concatenate([keys[50:200], keys[100:110]])
    return np.stack(divmod(true, CANDIDATES)), np.stack(divmod(known, CANDIDATES))


def reference(scores: torch.Tensor, true: Any, excluded: set[tuple[int, int]]) -> list[float]:
    ranks = []
    for query, target in true.T.tolist():
        others = [c for c in range(CANDIDATES) if c != target and (query, c) not in excluded]
        above = sum(bool(scores[query, c] > scores[query, target]) for c in others)
        beside = sum(bool(scores[query, c] == scores[query, target]) for c in others)
        ranks.append(1 + above + beside / 2)
    return ranks


@pytest.mark.parametrize("block", [1, 4 * CANDIDATES - 4, 4 * CANDIDATES, 12 * CANDIDATES, "64MiB"])
@pytest.mark.parametrize("ties", [False, True])
def test_ranks_equal_a_plain_reference(pairs: Any, ties: bool, block: str | int) -> None:
    true, known = pairs
    scores = torch.randn(QUERIES, CANDIDATES, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    scores = scores.round() if ties else scores
    calls: list[int] = []

    def score(queries: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        calls.append(len(queries) * len(candidates))
        return scores[queries][:, candidates]

    ranks = rank_pairs(score, true, CANDIDATES, [known], block=block)
    both = {*map(tuple, true.T.tolist()), *map(tuple, known.T.tolist())}
    assert ranks.filtered.tolist() == reference(scores, true, both)
    assert ranks.among_true.tolist() == reference(scores, true, {*map(tuple, known.T.tolist())})
    assert max(calls) <= max(1, block // 4 if isinstance(block, int) else 1 << 24)
    assert sum(calls) <= 2 * QUERIES * CANDIDATES


def test_metrics_equal_their_definitions(pairs: Any) -> None:
    true, known = pairs
    scores = torch.randn(QUERIES, CANDIDATES, generator=torch.Generator().manual_seed(2))
    ranks = rank_pairs(lambda queries, candidates: scores[queries][:, candidates], true, CANDIDATES, [known])
    assert ranks.mrr == pytest.approx(np.mean([1 / rank for rank in ranks.filtered]))
    assert ranks.hits(3) == pytest.approx(np.mean([rank <= 3 for rank in ranks.filtered]))
    recalls, gains, precisions = [], [], []
    for query in np.unique(true[0]):
        masked = scores[query].clone().double()
        masked[known[1][known[0] == query]] = -math.inf
        mine = true[1][true[0] == query]
        masked[mine] = scores[query].double()[mine]  # a pair that is in both counts
        if np.isin(mine, known[1][known[0] == query]).any():
            continue
        best = masked.argsort(descending=True)[:5].tolist()
        found = [item in mine for item in best]
        recalls.append(sum(found) / len(mine))
        precisions.append(sum(sum(found[: i + 1]) / (i + 1) for i in range(5) if found[i]) / min(len(mine), 5))
        relevance = np.isin(np.arange(CANDIDATES), mine)
        gains.append(ndcg_score(relevance[None], masked.nan_to_num(neginf=-1e9).numpy()[None], k=5))
    whole = ~np.isin(ranks.queries, [q for q in np.unique(true[0]) if _in_both(q, true, known)])
    ranks = type(ranks)(*(of_all[whole] for of_all in vars(ranks).values()))
    assert len(recalls) > 2
    assert ranks.recall(5) == pytest.approx(np.mean(recalls))
    assert ranks.ndcg(5) == pytest.approx(np.mean(gains))
    assert ranks.mean_average_precision(5) == pytest.approx(np.mean(precisions))


def _in_both(query: int, true: Any, known: Any) -> bool:
    return bool(np.isin(true[1][true[0] == query], known[1][known[0] == query]).any())


def test_heuristics_equal_plain_references(pairs: Any) -> None:
    _, known = pairs
    counts = np.zeros((QUERIES, CANDIDATES))
    np.add.at(counts, tuple(known), 1)
    queries, candidates = torch.tensor([5, 2, 7]), torch.arange(10, 30)
    rows = queries.numpy()[:, None], candidates.numpy()[None]
    popular = counts.sum(axis=0)
    assert np.array_equal(popularity(known, CANDIDATES)(queries, candidates), popular[rows[1]].repeat(3, axis=0))
    seen = repetition(known, QUERIES, CANDIDATES)(queries, candidates).numpy()
    assert np.allclose(seen, counts[rows] + popular[rows[1]] / (known.shape[1] + 1))
    assert np.array_equal(np.floor(seen), counts[rows])
    ones = (counts > 0).astype(float)
    norms = np.maximum(np.sqrt(ones.sum(axis=0)), 1)
    similar = ones @ (ones.T @ ones / norms / norms[:, None])
    assert np.allclose(item_neighbors(known, QUERIES, CANDIDATES)(queries, candidates), similar[rows])


def test_label_propagation_equals_dense_products() -> None:
    generator = np.random.default_rng(0)
    adjacency = generator.random((30, 30)) < 0.1
    adjacency[[3, 7]] = False  # nodes without in-neighbors
    indptr = np.append(0, adjacency.sum(axis=1).cumsum())
    indices = np.nonzero(adjacency)[1].astype(np.int32)
    ids, known = np.array([3, 5, 8, 20], dtype=np.int32), generator.random((4, 2), dtype=np.float32)
    degrees = np.maximum(adjacency.sum(axis=1), 1)
    scaled = 0.9 * adjacency / np.sqrt(degrees) / np.sqrt(degrees)[:, None]
    weights = sum(np.linalg.matrix_power(scaled, step) for step in range(51))[:, ids]
    sums = weights.sum(axis=1, keepdims=True)
    expected = np.where(sums > 0, weights @ known / np.where(sums > 0, sums, 1), known.mean(axis=0))
    found = label_propagation(indptr, indices, known, ids)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.array_equal(found[7], known.mean(axis=0))


def test_the_rank_of_constant_scores_is_the_middle() -> None:
    ranks = rank_pairs(lambda queries, candidates: torch.zeros(len(queries), len(candidates)), [[0], [7]], 101)
    assert ranks.filtered.tolist() == [51.0]
    assert ranks.hits(10) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"pairs": [[0, 1]]}, r"pairs must be integers of shape \(2, num_pairs\)"),
        ({"pairs": [[0.5], [1.0]]}, "pairs must be integers"),
        ({"pairs": np.empty((2, 0), dtype=np.int64)}, "at least one pair"),
        ({"pairs": [[0], [9]]}, r"candidates in \[0, 5\), got ids from 0 to 9"),
        ({"known": [[[0], [5]]]}, r"known\[0\] must be queries >= 0 and candidates"),
        ({"score": lambda queries, candidates: torch.zeros(3)}, r"score must return shape \(1, 5\)"),
        ({"score": lambda queries, candidates: torch.full((1, 5), math.nan)}, "got NaN; the model may have diverged"),
        ({"block": "many"}, "block"),
    ],
)
def test_what_can_not_be_ranked_is_said(more: dict[str, Any], message: str) -> None:
    given = {"score": lambda queries, candidates: torch.zeros(len(queries), len(candidates)), "pairs": [[0], [1]]}
    with pytest.raises(UsageError, match=message):
        rank_pairs(**{**given, "num_candidates": 5, **more})


def test_pairs_that_repeat_count_once_per_query() -> None:
    scores = torch.tensor([[5.0, 4, 3, 2, 1], [1.0, 2, 3, 4, 5]])
    once = np.array([[0, 0, 1], [0, 3, 2]])
    many = once[:, [0, 1, 2, 0, 0, 2]]
    one, other = (rank_pairs(lambda q, c: scores[q][:, c], pairs, 5) for pairs in (once, many))
    for k in (1, 2, 5):
        for name in ("recall", "ndcg", "mean_average_precision"):
            assert getattr(other, name)(k) == getattr(one, name)(k) <= 1
    assert one.mrr == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert other.mrr == pytest.approx((1 + 1 / 3 + 1 / 3 + 1 + 1 + 1 / 3) / 6)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_counts_beyond_float32_are_told_apart(dtype: torch.dtype) -> None:
    scores = torch.tensor([1 << 24, (1 << 24) + 1], dtype=dtype)
    ranks = rank_pairs(lambda q, c: scores[c].expand(len(q), -1), np.array([[0, 1], [0, 1]]), 2)
    assert ranks.filtered.tolist() == [2, 1]
