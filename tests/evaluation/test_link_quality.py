from __future__ import annotations

import numpy as np
import pytest
import torch

from a3gnn.evaluation.link_quality import LinkScores, heuristic_qualities, link_quality, ranks_of
from a3gnn.graphs.links import Links
from a3gnn.graphs.schema import Relation
from a3gnn.metric import RANK_METRICS
from a3gnn.models.decoders import DistMult, make_decoder

HEADS, TAILS, PAIRS = 12, 20, 90


def task(within: bool) -> Links:
    rng = np.random.default_rng(1)
    sizes = (HEADS, HEADS if within else TAILS)
    relations = tuple(Relation("a", name, "a" if within else "b") for name in ("one", "two"))
    kinds = rng.integers(2, size=PAIRS).astype(np.int32)
    return Links(relations, sizes, np.stack([rng.integers(n, size=PAIRS) for n in sizes]).astype(np.int32), kinds)


def scores_of(links: Links, decoder: str = "distmult") -> LinkScores:
    torch.manual_seed(2)
    rows = [torch.randn(count, 6) for count in links.num_nodes]
    if len(links.directions) == 2:
        rows[1] = rows[0]
    return LinkScores(make_decoder(decoder, 6, 2), *rows)  # type: ignore[arg-type]


@torch.no_grad()
def reference_ranks(links: Links, scores: LinkScores, ids: np.ndarray, known: np.ndarray) -> list[float]:
    """Returns filtered realistic ranks, pair by pair and candidate by candidate, heads last."""
    true = {(int(links.kinds[i]), *links.pairs[:, i].tolist()) for i in (*ids, *known)}
    found = []
    for are_heads in links.directions:
        for i in ids:
            kind, (head, tail) = int(links.kinds[i]), links.pairs[:, i].tolist()
            triples = [
                (kind, head, other) if are_heads else (kind, other, tail)
                for other in range(links.num_candidates(are_heads))
            ]
            own = (kind, head, tail)
            value = {
                one: float(
                    scores.decoder.pairs(scores.heads[[one[1]]], scores.tails[[one[2]]], torch.tensor([kind]))[0]
                )
                for one in triples
            }
            rivals = [value[one] for one in triples if one not in true]
            above, equal = sum(one > value[own] for one in rivals), sum(one == value[own] for one in rivals)
            found.append(1 + above + equal / 2)
    return found


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("decoder", ["dot", "distmult", "rotate", "mlp"])
def test_ranks_equal_those_counted_candidate_by_candidate(within: bool, decoder: str) -> None:
    links = task(within)
    scores, ids, known = scores_of(links, decoder), np.arange(60, 90), np.arange(50)
    expected = reference_ranks(links, scores, ids, known)
    for block in ("64MiB", "200B"):
        ranks = ranks_of(scores, links, ids, known, block)
        np.testing.assert_allclose(ranks.filtered, expected)
    quality = link_quality("mrr", scores, links, ids, known, seed=0)
    assert quality == pytest.approx(np.mean(1 / np.array(expected)))


def test_relations_are_queries_of_their_own() -> None:
    links, known = task(True), np.arange(0)
    decoder = DistMult(6, 2)
    with torch.no_grad():
        decoder.relation[1] = -decoder.relation[0]
    rows = torch.randn(HEADS, 6, generator=torch.Generator().manual_seed(3))
    score = LinkScores(decoder, rows, rows)(True)
    found = score(torch.tensor([4, HEADS + 4]), torch.arange(HEADS))
    torch.testing.assert_close(found[0], -found[1])
    ids = np.array([0], dtype=np.int32)
    ranks = ranks_of(LinkScores(decoder, rows, rows), links, ids, known)
    assert len(ranks.filtered) == 2
    assert len(np.unique(ranks.queries)) == 2


@pytest.mark.parametrize("name", RANK_METRICS)
def test_each_metric_is_that_of_the_ranks(name: str) -> None:
    links = task(False)
    scores, ids, known = scores_of(links), np.arange(60, 90), np.arange(50)
    ranks = ranks_of(scores, links, ids, known)
    expected = {
        "mrr": ranks.mrr,
        "hits@10": ranks.hits(10),
        "recall@20": ranks.recall(20),
        "ndcg@20": ranks.ndcg(20),
        "map@20": ranks.mean_average_precision(20),
    }[name]
    assert link_quality(name, scores, links, ids, known, seed=0) == expected


def test_random_targets_are_no_pairs_and_judge_a_perfect_model_as_perfect() -> None:
    links, ids, known = task(False), np.arange(60, 90), np.arange(60)
    is_pair = np.zeros((links.num_queries(True), TAILS), dtype=np.float32)
    is_pair[tuple(links.queries(np.arange(PAIRS), True))] = 1

    def perfect(are_heads: bool):
        return lambda queries, candidates: torch.from_numpy(is_pair)[queries][:, candidates]

    for metric in ("roc_auc", "average_precision"):
        assert link_quality(metric, perfect, links, ids, known, seed=0) == 1
        chance = link_quality(metric, scores_of(links), links, ids, known, seed=0)
        assert 0.2 < chance < 0.8
        assert chance == link_quality(metric, scores_of(links), links, ids, known, seed=0)


def test_heuristics_are_measured_by_the_same_ranks() -> None:
    links, ids, known = task(False), np.arange(60, 90), np.arange(60)
    found = heuristic_qualities("mrr", links, ids, known, seed=0, block="64MiB")
    assert list(found) == ["popularity", "item neighbors"]
    counts = torch.from_numpy(np.bincount(links.pairs[1, known], minlength=TAILS))
    popular = link_quality(
        "mrr",
        lambda _: lambda queries, candidates: counts[candidates].expand(len(queries), -1),
        links,
        ids,
        known,
        seed=0,
    )
    assert found["popularity"] == popular


def test_item_neighbors_are_left_out_where_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3gnn.evaluation.link_quality._MOST_SUMS", 10)
    found = heuristic_qualities("mrr", task(False), np.arange(60, 90), np.arange(60), seed=0, block="64MiB")
    assert list(found) == ["popularity"]
