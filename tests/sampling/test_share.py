from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.share import CutSampler, Shares, cut, seed_bounds
from a3gnn.sampling.subgraph import Subgraph


def sampled(graph: Graph, fanouts: tuple[int, ...], seeds: np.ndarray, batch: int = 0) -> Subgraph:
    return Sampler(graph.edges, fanouts, seed=1).sample(seeds, 0, batch)


def row(of: Subgraph, i: int) -> list[int]:
    """In-neighbors of row `i`, in order, by global id."""
    return of.n_id[of.indices[of.indptr[i] : of.indptr[i + 1]]].tolist()


@settings(max_examples=40, deadline=None)
@given(
    fanouts=st.sampled_from([(3, 2), (5,), (2, 2, 2), (-1, 3)]),
    count=st.integers(1, 60),
    weights=st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any),
    batch=st.integers(0, 9),
)
def test_shares_are_the_whole(tiny_graph, fanouts, count, weights, batch):
    seeds = np.random.default_rng(batch).permutation(tiny_graph.num_nodes)[:count].astype(np.int32)
    whole = sampled(tiny_graph, fanouts, seeds, batch)
    bounds = seed_bounds(count, weights)
    shares = [cut(whole, low, high) for low, high in pairwise(bounds)]
    counted = np.zeros(whole.num_nodes, dtype=int)
    for share, low, high in zip(shares, bounds[:-1], bounds[1:], strict=True):
        known = share.share
        assert known.whole is whole
        assert known.num_seeds == high - low
        assert np.array_equal(share.n_id, whole.n_id[known.places])
        taken = seeds[low:high] if high > low else seeds[:1]  # a share without seeds keeps step with one
        assert share.n_id[: share.num_seeds].tolist() == taken.tolist()
        assert all(row(share, i) == row(whole, known.places[i]) for i in range(len(share.indptr) - 1))
        counted[known.places[known.owned]] += 1
    assert (counted == 1).all()
    for hop in range(len(fanouts) + 1):
        # Whoever owns a node reaches it where the whole does, so that it is in each layer where the whole has it.
        of_whole = set(range(whole.hop_sizes[hop]))
        owned = {
            int(place)
            for share in shares
            for place in share.share.places[: share.hop_sizes[hop]][share.share.owned[: share.hop_sizes[hop]]]
        }
        assert owned == of_whole


def test_a_share_sampled_for_itself_would_be_another(tiny_graph):
    seeds = tiny_graph.train_ids[:60]
    whole = sampled(tiny_graph, (3, 2), seeds)
    own, itself = cut(whole, 30, 60), sampled(tiny_graph, (3, 2), seeds[30:])
    drawn = {int(node): set(row(itself, i)) for i, node in enumerate(itself.n_id[: len(itself.indptr) - 1])}
    same = [drawn.get(int(node)) == set(row(own, i)) for i, node in enumerate(own.n_id[: len(own.indptr) - 1])]
    assert all(same[:30])  # seeds are drawn at the first hop by both
    assert not all(same)


@pytest.mark.parametrize("disjoint", [False, True])
def test_edge_ids_and_trees_are_the_wholes(disjoint, tiny_graph):
    edges = Edges(tiny_graph.indptr, tiny_graph.indices, ids=np.empty(0, dtype=np.int32))
    sampler = Sampler(edges, (3, 2), seed=0, disjoint=disjoint)
    whole = sampler.sample(tiny_graph.train_ids[:20], 0, 0)
    share = cut(whole, 5, 12)
    ends = np.repeat(np.arange(len(share.indptr) - 1), np.diff(share.indptr))
    targets = np.repeat(np.arange(tiny_graph.num_nodes), np.diff(tiny_graph.indptr))
    assert np.array_equal(tiny_graph.indices[share.e_id], share.n_id[share.indices])
    assert np.array_equal(targets[share.e_id], share.n_id[ends])
    if disjoint:
        assert np.array_equal(share.tree[: share.num_seeds], np.arange(7))
        assert set(share.tree.tolist()) == set(range(7))


def test_a_sampler_that_cuts_gives_the_share(tiny_graph):
    seeds = tiny_graph.train_ids[:50]
    sampler = Sampler(tiny_graph.edges, (4, 3), seed=1)
    found = CutSampler(sampler, Shares(1, (2, 3))).sample(seeds, 0, 4)
    assert np.array_equal(found.n_id[:30], seeds[20:])
    assert found.sampled.num_seeds == 50
    assert found.sampled.sampled is found.sampled


def test_shares_are_checked(tiny_graph):
    assert seed_bounds(1024, (700, 324)) == [0, 700, 1024]
    assert seed_bounds(176, (1024, 0)) == [0, 176, 176]
    assert seed_bounds(1, (1, 1)) == [0, 0, 1]
    with pytest.raises(UsageError, match="one above 0"):
        Shares(0, (0, 0))
    with pytest.raises(UsageError, match="rank must be in"):
        Shares(2, (1, 1))
    with pytest.raises(UsageError, match="within"):
        cut(sampled(tiny_graph, (2,), tiny_graph.train_ids[:4]), 2, 5)
