"""`LinkHistory` against a plain filter of the earlier links, pair by pair."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from a3gnn.graphs.links import Links
from a3gnn.graphs.schema import Relation
from a3gnn.sampling.link_history import LinkHistory, node_columns, pair_columns


def of_list(known: list[tuple[int, int]], other: int, now: int) -> list[float]:
    """Returns the values of `other` in the last links of a node, each as (number, other end)."""
    places = [place for place, (_, one) in enumerate(known) if one == other]
    if not places:
        return [0.0] * 4
    latest = places[-1]
    since = math.log1p(now - known[latest][0]) / 8
    return [math.log1p(len(places)), len(places) / len(known), 1 / (len(known) - latest), since]


def plain_pair(pairs: NDArray[Any], head: int, tail: int, now: int, last: int, mutual: bool) -> list[float]:
    """Returns the values of a pair by the first `now` of `pairs`, which are in the order of time."""
    earlier = [(number, int(u), int(v)) for number, (u, v) in enumerate(pairs.T[:now])]

    def sent(node: int) -> list[tuple[int, int]]:
        return [(number, v) for number, u, v in earlier if u == node][-last:]

    def got(node: int) -> list[tuple[int, int]]:
        return [(number, u) for number, u, v in earlier if v == node][-last:]

    found = of_list(sent(head), tail, now) + of_list(got(tail), head, now)
    if not mutual:
        return found
    return found + of_list(got(head), tail, now) + of_list(sent(tail), head, now)


def plain_node(pairs: NDArray[Any], node: int, now: int, end: int, mutual: bool) -> list[float]:
    """Returns the values of a node by the first `now` of `pairs`."""
    found = []
    for row in (0, 1) if mutual else (end,):
        own = [number for number, one in enumerate(pairs[row, :now]) if one == node]
        since = [math.log1p(now - number) / 8 for number in (own[-1], own[-10:][0])] if own else [0.0, 0.0]
        found += [math.log1p(len(own)) / 2, *since]
    return found


def linked(mutual: bool, seed: int, number: int = 400) -> Links:
    """Random links with ties, between 12 nodes of one type, or of 12 with 7."""
    rng, ends = np.random.default_rng(seed), ("user", "user") if mutual else ("user", "page")
    sizes = (12, 12) if mutual else (12, 7)
    pairs = np.stack([rng.integers(size, size=number) * rng.integers(2, size=number) for size in sizes])
    ranks = np.sort(rng.integers(number // 5, size=number)).astype(np.int32)
    kinds = np.zeros(number, dtype=np.int32)
    return Links((Relation(ends[0], "sees", ends[1]),), sizes, pairs.astype(np.int32), kinds, ranks=ranks)


@pytest.mark.parametrize("mutual", [True, False])
@pytest.mark.parametrize("last", [1, 4, 1000])
def test_values_are_those_of_a_plain_filter_of_strictly_earlier_links(mutual: bool, last: int) -> None:
    links = linked(mutual, seed=last)
    history, rng = LinkHistory.of(links, last), np.random.default_rng(1)
    assert links.ranks is not None
    at = rng.integers(links.ranks.max() + 1, size=300)
    known = np.searchsorted(links.ranks, at)  # of links at the same time, none is seen
    assert all((links.ranks[:count] < rank).all() for count, rank in zip(known, at, strict=True))
    heads, tails = (rng.integers(size, size=len(at)) for size in links.num_nodes)
    found = history.of_pairs(heads, tails, known)
    assert found.shape == (len(at), pair_columns(mutual))
    expected = [
        plain_pair(links.pairs, *one, last, mutual)  # type: ignore[call-arg]
        for one in zip(heads.tolist(), tails.tolist(), known.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert 20 < found.any(axis=1).sum() < len(at)
    for end, nodes in enumerate((heads, tails)):
        values = history.of_nodes(nodes, known, end)
        assert values.shape == (len(at), node_columns(mutual))
        plain = [
            plain_node(links.pairs, node, now, end, mutual)
            for node, now in zip(nodes.tolist(), known.tolist(), strict=True)
        ]
        np.testing.assert_allclose(values, plain, rtol=1e-5)


@pytest.mark.parametrize("mutual", [True, False])
@pytest.mark.parametrize("end", [0, 1])
def test_all_pairs_with_history_are_met_once(mutual: bool, end: int) -> None:
    links = linked(mutual, seed=3)
    history, known = LinkHistory.of(links, 3), 150
    nodes = np.array([5, 2, 5, 0, links.num_nodes[end] - 1])
    places, others = history.met(nodes, known, end)
    met = {*zip(places.tolist(), others.tolist(), strict=True)}
    assert len(met) == len(places)
    assert (np.diff(places) >= 0).all()
    for place, node in enumerate(nodes.tolist()):
        for other in range(links.num_nodes[1 - end]):
            pair = (node, other) if end == 0 else (other, node)
            if any(plain_pair(links.pairs, *pair, known, 3, mutual)):
                assert (place, other) in met
