"""Mini-batches sampled by graph servers are those of a process that holds the graph, bit for bit."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.parts import client
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.remote import PartedSampler
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph


def check_equal(one: Subgraph, other: Subgraph) -> None:
    """Checks that both are the same, types included."""
    for name in ("n_id", "indptr", "indices"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    assert one.hop_sizes == other.hop_sizes


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    fanouts=st.lists(st.sampled_from([1, 2, 3, 7, 15, -1]), min_size=0, max_size=3),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.sampled_from([0, 1, 5, 2**64 - 1]),
    batch=st.integers(0, 10**6),
    seeds=st.lists(st.integers(0, 1999), min_size=1, max_size=80, unique=True),
)
def test_samples_are_those_of_one_process(
    small_folder_graph: Graph,
    parted: PartedGraph,
    fanouts: list[int],
    seed: int,
    epoch: int,
    batch: int,
    seeds: list[int],
) -> None:
    ids = np.array(seeds, dtype=np.int32)
    local = Sampler(small_folder_graph.edges, fanouts, seed=seed)
    check_equal(PartedSampler(parted, fanouts, seed=seed).sample(ids, epoch, batch), local.sample(ids, epoch, batch))


@pytest.mark.parametrize("asked_bytes", [1, 64, 1000])
def test_requests_in_pieces_give_the_same(
    small_folder_graph: Graph, parted: PartedGraph, monkeypatch: pytest.MonkeyPatch, asked_bytes: int
) -> None:
    monkeypatch.setattr(client, "ASKED_BYTES", asked_bytes)
    ids = small_folder_graph.train_ids[:40]
    local = Sampler(small_folder_graph.edges, (5, -1), seed=3)
    before = parted.client.traffic.requests
    check_equal(PartedSampler(parted, (5, -1), seed=3).sample(ids, 0, 0), local.sample(ids, 0, 0))
    assert parted.client.traffic.requests - before > 6  # more than one for each hop and part


def test_another_seed_draws_others(parted: PartedGraph) -> None:
    ids = parted.train_ids[:40]
    one, other = (PartedSampler(parted, (3, 3), seed=seed).sample(ids, 0, 0) for seed in (1, 2))
    assert not np.array_equal(one.n_id, other.n_id)


def test_in_edges_are_the_graphs(small_folder_graph: Graph, parted: PartedGraph) -> None:
    every = np.arange(parted.num_nodes, dtype=np.int32)
    indptr, indices = parted.in_edges(every)
    assert np.array_equal(indptr, small_folder_graph.indptr)
    assert np.array_equal(indices, small_folder_graph.indices)


def test_seeds_are_checked_as_in_one_process(parted: PartedGraph) -> None:
    sampler = PartedSampler(parted, (3,), seed=0)
    for seeds in ([], [5, 5], [2000], [-1]):
        with pytest.raises(UsageError, match="seeds must be"):
            sampler.sample(np.array(seeds, dtype=np.int32), 0, 0)
    assert sampler.sample(np.array([5], dtype=np.int32), 0, 0).num_seeds == 1
