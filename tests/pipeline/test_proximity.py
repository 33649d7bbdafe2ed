"""Proximity-aware orders: permutations that keep neighbors close, with as many sequences as labels need."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition
from a3gnn.pipeline.proximity import ProximityOrder, shuffling_error


@pytest.fixture(scope="module")
def communities() -> Graph:
    """6,000 nodes in 12 communities that are their labels, all of them seeds."""
    return Graph.load("synthetic:nodes=6000,degree=12,classes=12,features=4,homophily=0.9,train=0.8,val=0.1")


def order_of(graph: Graph, *, labels: np.ndarray | None = None, batch_size: int = 64, seed: int = 0) -> ProximityOrder:
    labels = graph.labels if labels is None else labels
    return ProximityOrder(graph.indptr, graph.indices, labels, graph.num_classes, graph.train_ids, batch_size, seed)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_sequences_are_arcs_that_are_dealt_in_turn(count: int) -> None:
    nodes = 20
    seeds = np.arange(nodes, dtype=np.int32)
    ring = np.arange(nodes + 1), np.roll(seeds, -1)  # the traversal is the ring itself
    order = ProximityOrder(*ring, np.zeros(nodes, dtype=np.int64), 1, seeds, 5, seed=0, num_sequences=count)
    for epoch in range(5):
        permutation = order.permutation(epoch)
        arcs = [permutation[i::count] for i in range(count)]
        for arc, after in zip(arcs, arcs[1:] + arcs[:1], strict=True):
            steps = np.diff(arc) % nodes
            # One after the other but for the place where the arc begins again.
            assert np.count_nonzero(steps != 1) <= 1
            assert len(np.unique((arc - min_of_arc(arc, nodes)) % nodes)) == len(arc)
            assert (min_of_arc(arc, nodes) + len(arc)) % nodes == min_of_arc(after, nodes)


def min_of_arc(arc: np.ndarray, nodes: int) -> int:
    """The entry of an arc on a ring that its other entries follow."""
    if len(arc) == nodes:
        return int(arc[0])
    return next(int(node) for node in arc if (node - 1) % nodes not in arc)


@settings(deadline=None, max_examples=40)
@given(
    count=st.integers(0, 80), batch_size=st.integers(1, 40), num_parts=st.integers(1, 4), epoch=st.integers(0, 5),
    seed=st.integers(0, 3),
)  # fmt: skip
def test_every_seed_comes_once_and_parts_stay_together(
    tiny_graph: Graph, count: int, batch_size: int, num_parts: int, epoch: int, seed: int
) -> None:
    draw = np.random.default_rng(count)
    seeds = draw.choice(tiny_graph.num_nodes, size=count, replace=False).astype(np.int32)
    parts = draw.integers(0, num_parts, size=tiny_graph.num_nodes).astype(np.int32) if num_parts > 1 else None
    labels = np.where(draw.random(tiny_graph.num_nodes) < 0.1, -1, tiny_graph.labels)
    order = ProximityOrder(tiny_graph.indptr, tiny_graph.indices, labels, 4, seeds, batch_size, seed, parts)
    permutation = order.permutation(epoch)
    assert permutation.dtype == np.int32
    assert sorted(permutation) == sorted(seeds)
    assert 1 <= order.num_sequences <= batch_size
    if parts is not None:
        visits = [part for part, _ in groupby(parts[permutation])]
        assert len(visits) == len(set(visits))


def test_it_depends_on_seed_and_epoch_alone(communities: Graph) -> None:
    one, other = order_of(communities), order_of(communities)
    assert one.num_sequences == other.num_sequences
    # Asked for in another sequence, as a run that goes on from epoch 2 does.
    ahead = other.permutation(2)
    for epoch in range(3):
        assert other.permutation(epoch).tolist() == one.permutation(epoch).tolist()
    assert ahead.tolist() == one.permutation(2).tolist()
    different = [one.permutation(0), one.permutation(1), order_of(communities, seed=1).permutation(0)]
    assert len({tuple(permutation) for permutation in different}) == 3


CLIQUES, SIZE = 60, 10
NODES = CLIQUES * SIZE


@pytest.fixture(scope="module")
def ring_of_cliques() -> csr_array:
    """60 cliques of 10 nodes in a ring, each node joined with its like in the next clique; ids tell nothing."""
    ids = np.arange(NODES)
    joined = ids[:, None] // SIZE == ids // SIZE
    joined[ids, (ids + SIZE) % NODES] = joined[(ids + SIZE) % NODES, ids] = True
    np.fill_diagonal(joined, False)
    return csr_array(joined)


def ring_order(ring: csr_array, labels: np.ndarray) -> ProximityOrder:
    seeds = np.arange(NODES, dtype=np.int32)
    return ProximityOrder(ring.indptr.astype(np.int64), ring.indices, labels, 4, seeds, 50, seed=0)


def mean_distance(graph: csr_array, permutation: np.ndarray) -> float:
    """Between the places, on a circle, of two nodes that an edge joins."""
    place = np.argsort(permutation)
    targets, sources = graph.nonzero()
    apart = np.abs(place[targets] - place[sources])
    return float(np.minimum(apart, NODES - apart).mean())


def test_neighbors_come_closer_together_than_at_random(ring_of_cliques: csr_array) -> None:
    mixed = np.random.default_rng(0).integers(0, 4, size=NODES)
    order = ring_order(ring_of_cliques, mixed)
    assert order.num_sequences == 1
    for epoch in range(3):
        shuffled = np.random.default_rng(epoch).permutation(NODES)
        near = mean_distance(ring_of_cliques, order.permutation(epoch))
        assert near < mean_distance(ring_of_cliques, shuffled) / 5


def test_clustered_labels_take_more_sequences(ring_of_cliques: csr_array) -> None:
    clustered = np.arange(NODES) // (NODES // 4)
    mixed, by_place = (ring_order(ring_of_cliques, labels) for labels in (np.arange(NODES) % 4, clustered))
    assert mixed.num_sequences < by_place.num_sequences


def test_it_keeps_to_its_bound_with_the_fewest_sequences(communities: Graph) -> None:
    order = order_of(communities)
    classes = communities.labels.astype(np.int32)
    found = [shuffling_error(classes[order.permutation(epoch)], 64, 12) for epoch in range(4)]
    assert order.shuffling_error == pytest.approx(np.mean(found))
    assert order.random_error < order.shuffling_error <= order.error_bound
    assert 1 < order.num_sequences < 64


def test_random_labels_take_one_sequence(communities: Graph) -> None:
    mixed = np.random.default_rng(0).permutation(communities.labels)
    order = order_of(communities, labels=mixed)
    assert order.num_sequences == 1
    assert order.shuffling_error == pytest.approx(order.random_error, rel=0.1)


def test_there_are_at_most_128_sequences() -> None:
    # A mini-batch takes 31 seeds in a row from each of 128 arcs, mostly out of one run of 250 equal labels.
    nodes = 100_000
    seeds = np.arange(nodes, dtype=np.int32)
    ring = np.arange(nodes + 1), np.roll(seeds, -1)
    labels = np.random.default_rng(0).integers(0, 2, size=nodes // 250)[seeds // 250]
    order = ProximityOrder(*ring, labels, 2, seeds, 4000, seed=0)
    assert order.num_sequences == 128
    assert order.shuffling_error > order.error_bound


def test_a_number_can_be_given(ring_of_cliques: csr_array) -> None:
    ring, seeds = ring_of_cliques, np.arange(NODES, dtype=np.int32)
    arguments = ring.indptr.astype(np.int64), ring.indices, np.arange(NODES) // (NODES // 4), 4, seeds, 50, 0
    errors = [ProximityOrder(*arguments, num_sequences=count).shuffling_error for count in (1, 4, 16)]
    assert errors == sorted(errors, reverse=True)
    assert ProximityOrder(*arguments, num_sequences=4).num_sequences == 4
    with pytest.raises(UsageError, match="num_sequences must be >= 1, got 0"):
        ProximityOrder(*arguments, num_sequences=0)


def test_parts_are_ordered_each_by_itself(small_graph: Graph) -> None:
    graph, parts = small_graph, partition(small_graph, 3)
    order = ProximityOrder(graph.indptr, graph.indices, graph.labels, 5, graph.train_ids, 32, 0, parts)
    assert [part for part, _ in groupby(parts[order.permutation(1)])] == [0, 1, 2]
    bounds = [0, *np.cumsum(np.bincount(parts[graph.train_ids])).tolist()]
    labels = [graph.labels[order.permutation(epoch)].astype(np.int32) for epoch in range(4)]
    assert order.shuffling_error == pytest.approx(np.mean([shuffling_error(one, 32, 5, bounds) for one in labels]))
