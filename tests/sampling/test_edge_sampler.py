"""`Sampler` of edges with ids: what it shares with one without, bit for bit, and the laws of its options."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph

#: Four in-neighbors of node 0, one of them by two edges; given out of order.
SOURCES, TARGETS = np.array([4, 1, 2, 3, 1, 0]), np.array([0, 0, 0, 0, 0, 2])


def star(weights: list[float] | None = None) -> Edges:
    return Edges.of(SOURCES, TARGETS, 5, None if weights is None else np.array([*weights, 1.0]))


def check(subgraph: Subgraph, sources: np.ndarray, targets: np.ndarray) -> None:
    """Every edge is the one that its id says."""
    rows = np.repeat(np.arange(len(subgraph.indptr) - 1), np.diff(subgraph.indptr))
    assert np.array_equal(subgraph.n_id[subgraph.indices], sources[subgraph.e_id])
    assert np.array_equal(subgraph.n_id[rows], targets[subgraph.e_id])


@pytest.mark.parametrize("bias_rate", [1.0, 3.0])
def test_uniform_draws_are_those_of_edges_without_ids(bias_rate: float, small_graph: Graph) -> None:
    targets = np.repeat(np.arange(small_graph.num_nodes), np.diff(small_graph.indptr))
    order = np.random.default_rng(0).permutation(len(targets))
    sources, targets = small_graph.indices[order].astype(np.int64), targets[order]
    cached = np.arange(small_graph.num_nodes) % 3 == 0
    options = {"seed": 5, "bias_rate": bias_rate, "cached": cached}
    ours = Sampler(Edges.of(sources, targets, small_graph.num_nodes), (5, -1, 3), **options)
    plain = Sampler(small_graph.edges, (5, -1, 3), **options)
    for batch in range(3):
        seeds = np.random.default_rng(batch).permutation(small_graph.num_nodes)[:40].astype(np.int32)
        one, other = ours.sample(seeds, 1, batch), plain.sample(seeds, 1, batch)
        for name in ("n_id", "indptr", "indices"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert one.hop_sizes == other.hop_sizes
        check(one, sources, targets)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_edges_are_sorted_by_target_and_kept(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 6))
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=20))
    sources, targets = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    edges = Edges.of(sources, targets, nodes)
    rows = np.repeat(np.arange(nodes), np.diff(edges.indptr))
    ids = edges.ids if len(edges.ids) else np.arange(len(pairs))
    assert sorted(ids.tolist()) == list(range(len(pairs)))
    assert np.array_equal(edges.indices, sources[ids])
    assert np.array_equal(rows, targets[ids])
    assert [*zip(rows.tolist(), edges.indices.tolist(), ids.tolist(), strict=True)] == sorted(
        (target, source, place) for place, (source, target) in enumerate(pairs)
    )
    indptr, indices = edges.distinct()
    once = [*zip(np.repeat(np.arange(nodes), np.diff(indptr)).tolist(), indices.tolist(), strict=True)]
    assert once == sorted({(target, source) for source, target in pairs})
    seeds = np.arange(nodes, dtype=np.int32)
    indptr, sources_at, places = Sampler(edges, (1,), seed=0).induced(seeds)
    assert np.array_equal(indptr, edges.indptr)
    assert np.array_equal(sources_at, edges.indices)
    assert np.array_equal(places, ids)


def test_an_edge_that_occurs_twice_is_two() -> None:
    subgraph = Sampler(star(), (-1,), seed=0).sample(np.zeros(1, dtype=np.int32), 0, 0)
    assert subgraph.e_id.tolist() == [1, 4, 2, 3, 0]
    assert subgraph.n_id.tolist() == [0, 1, 2, 3, 4]
    check(subgraph, SOURCES, TARGETS)


def drawn(sampler: Sampler, draws: int) -> list[tuple[int, ...]]:
    seeds = np.zeros(1, dtype=np.int32)
    return [tuple(sorted(sampler.sample(seeds, epoch, 0).e_id.tolist())) for epoch in range(draws)]


def chi_square(found: Counter, law: dict[tuple[int, ...], float], draws: int) -> float:
    assert set(found) <= {outcome for outcome, probability in law.items() if probability > 0}
    return sum((found[outcome] - draws * p) ** 2 / (draws * p) for outcome, p in law.items() if p > 0)


WEIGHTS = [0.5, 2.0, 0.0, 1.0, 4.0]
#: Above it a chi-square variable of 9 degrees of freedom or fewer is with probability 1e-4.
MOST = 33.7


def test_weighted_sets_are_drawn_one_edge_after_the_other(exact_distribution) -> None:
    draws, law = 4000, {tuple(sorted(edges)): p for edges, p in exact_distribution(WEIGHTS, 2).items()}
    found = Counter(drawn(Sampler(star(WEIGHTS), (2,), seed=3), draws))
    assert chi_square(found, law, draws) < MOST
    # The test can fail: uniform draws are far from that law.
    uniform = Counter(drawn(Sampler(star([1.0, 1.0, 0.0, 1.0, 1.0]), (2,), seed=3), draws))
    assert chi_square(uniform, law, draws) > 10 * MOST


def test_equal_weights_draw_every_set_alike() -> None:
    draws = 4000
    found = Counter(drawn(Sampler(star([7.0] * 5), (3,), seed=1), draws))
    assert chi_square(found, dict.fromkeys(combinations(range(5), 3), 0.1), draws) < MOST


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_replacement_draws_each_edge_anew(weights: list[float] | None) -> None:
    draws, fanout = 1500, 6
    sampler = Sampler(star(weights), (fanout,), seed=2, replace=True)
    taken = drawn(sampler, draws)
    assert {len(edges) for edges in taken} == {fanout}
    found = Counter((edge,) for edges in taken for edge in edges)
    total = sum(weights or [1.0] * 5)
    law = {(edge,): weight / total for edge, weight in enumerate(weights or [1.0] * 5)}
    assert chi_square(found, law, draws * fanout) < MOST


def test_a_weight_of_0_is_taken_only_with_its_whole_row() -> None:
    seeds = np.zeros(1, dtype=np.int32)
    for fanout, expected in ((5, 5), (-1, 5), (4, 2)):
        sampler = Sampler(star([0.0, 1.0, 0.0, 0.0, 3.0]), (fanout,), seed=0)
        assert sampler.sample(seeds, 0, 0).num_edges == expected
    assert Sampler(star([0.0] * 5), (2,), seed=0).sample(seeds, 0, 0).num_edges == 0
    assert Sampler(star([0.0] * 5), (2,), seed=0, replace=True).sample(seeds, 0, 0).num_edges == 0


def test_disjoint_trees_share_no_node(small_graph: Graph) -> None:
    targets = np.repeat(np.arange(small_graph.num_nodes), np.diff(small_graph.indptr))
    edges = Edges.of(small_graph.indices, targets, small_graph.num_nodes)
    seeds = np.array([7, 3, 7, 100], dtype=np.int32)
    sampler = Sampler(edges, (4, 3, 2), seed=0, disjoint=True)
    subgraph = sampler.sample(seeds, 0, 0)
    check(subgraph, small_graph.indices, targets)
    rows = np.repeat(np.arange(len(subgraph.indptr) - 1), np.diff(subgraph.indptr))
    assert np.array_equal(subgraph.tree[:4], np.arange(4))
    assert np.array_equal(subgraph.tree[subgraph.indices], subgraph.tree[rows])
    assert len(np.unique(np.stack([subgraph.tree, subgraph.n_id]), axis=1).T) == subgraph.num_nodes
    # The first tree is the one that its seed has alone; trees of the same seed are drawn apart.
    alone = Sampler(edges, (4, 3, 2), seed=0).sample(seeds[:1], 0, 0)
    trees = [subgraph.n_id[subgraph.tree == tree].tolist() for tree in range(4)]
    assert trees[0] == alone.n_id.tolist()
    assert trees[0] != trees[2]
    assert not any(sampler._positions._free[0])


def test_repeated_seeds_have_a_row_each(small_graph: Graph) -> None:
    targets = np.repeat(np.arange(small_graph.num_nodes), np.diff(small_graph.indptr))
    node = int(np.argmax(np.diff(small_graph.indptr)))
    sampler = Sampler(Edges.of(small_graph.indices, targets, small_graph.num_nodes), (3, 2), seed=0)
    subgraph = sampler.sample(np.full(2, node, dtype=np.int32), 0, 0)
    check(subgraph, small_graph.indices, targets)
    assert subgraph.hop_sizes[0] == 2
    assert np.diff(subgraph.indptr)[:2].tolist() == [3, 3]
    assert subgraph.e_id[:3].tolist() != subgraph.e_id[3:6].tolist()
    assert not any(sampler._positions._free[0])


def test_edges_within_parts_keep_their_ids_and_weights() -> None:
    edges = star([0.5, 1.0, 2.0, 3.0, 4.0]).within(np.array([0, 0, 1, 0, 1], dtype=np.int32))
    assert edges.indptr.tolist() == [0, 3, 3, 3, 3, 3]
    assert edges.ids.tolist() == [1, 4, 3]
    assert edges.weights.tolist() == [1.0, 4.0, 3.0]


@pytest.mark.parametrize("weights", [[1.0] * 5, [1.0, -1.0, 1.0, 1.0, 1.0, 1.0], [np.nan] + [1.0] * 5])
def test_other_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(UsageError, match="weights must be"):
        Edges.of(SOURCES, TARGETS, 5, np.array(weights))


def test_a_bias_goes_with_neither_weights_nor_replacement() -> None:
    cached = np.ones(5, dtype=np.bool_)
    for edges, replace in ((star(WEIGHTS), False), (star(), True)):
        with pytest.raises(UsageError, match="bias_rate must be 1 with weights or replacement, got 2"):
            Sampler(edges, (2,), seed=0, bias_rate=2.0, cached=cached, replace=replace)
