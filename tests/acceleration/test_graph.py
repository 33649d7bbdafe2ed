"""`EdgeGraph`: CSR, transpose and loops against a plain count; once per tensor."""

from __future__ import annotations

import gc

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.utils import add_self_loops, remove_self_loops

from a3gnn.acceleration.graph import EdgeGraph, graph_of
from a3gnn.pipeline import known_edges
from tests.acceleration.graphs import batches, random_edges


def pairs(graph: EdgeGraph) -> list[tuple[int, int, int]]:
    """Returns (place in the edge list, source, target) of each slot."""
    places = graph.order if len(graph.order) else np.arange(graph.num_edges)
    targets = np.repeat(np.arange(graph.num_dst), np.diff(graph.indptr))
    return sorted(zip(places.tolist(), graph.indices.tolist(), targets.tolist(), strict=True))


def listed(edges: torch.Tensor) -> list[tuple[int, int, int]]:
    return [(place, *ends) for place, ends in enumerate(edges.t().tolist())]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6)), max_size=30), st.booleans())
def test_edges_and_loops(ends: list[tuple[int, int]], ascending: bool) -> None:
    ends = sorted(ends, key=lambda one: one[1]) if ascending else ends
    edges = torch.tensor(ends, dtype=torch.int64).view(-1, 2).t().contiguous()
    graph = graph_of(edges, 9, 7)
    assert graph is not None
    assert pairs(graph) == listed(edges)
    starts, targets, slots = graph.by_source
    for source in range(9):
        part = slice(starts[source], starts[source + 1])
        assert (graph.indices[slots[part]] == source).all()
        assert np.array_equal(graph.block.ends[1].numpy()[slots[part]], targets[part])
    looped = add_self_loops(remove_self_loops(edges)[0], num_nodes=7)[0]
    assert pairs(graph.looped) == listed(looped)
    for rows in range(8):
        first = graph.first(rows)
        assert pairs(first) == [one for one in pairs(graph) if one[2] < rows]
        assert first.num_src >= max([rows, *(one[1] + 1 for one in pairs(first))])


def test_nodes_out_of_range() -> None:
    edges = torch.tensor([[0, 3], [1, 2]])
    assert graph_of(edges, 4, 3) is not None
    assert graph_of(edges, 3, 3) is None
    assert graph_of(edges, 4, 2) is None
    assert graph_of(edges - 1, 4, 3) is None


def test_a_graph_is_built_once_per_tensor_and_forgotten_with_it() -> None:
    edges = random_edges(20, 20, 50)
    graph = graph_of(edges, 20, 20)
    assert graph_of(edges, 20, 20) is graph
    assert graph_of(edges, 21, 20) is not graph
    edges[0, 0] = 5
    changed = graph_of(edges, 20, 20)
    assert changed is not graph
    assert pairs(changed) == listed(edges)
    count = len(known_edges._known)
    del edges
    gc.collect()
    assert len(known_edges._known) == count - 1


def test_a_mini_batch_brings_its_csr() -> None:
    for batch in batches():
        known = known_edges.known_edges(batch.edge_index)
        assert known.csr is not None
        assert known.hop_sizes[-1] == batch.num_nodes
        graph = graph_of(batch.edge_index, batch.num_nodes, batch.num_nodes)
        assert graph is not None
        assert graph.indices is known.csr[1]
        assert pairs(graph) == listed(batch.edge_index)
        wider = graph_of(batch.edge_index, batch.num_nodes + 5, batch.num_nodes + 3)
        assert pairs(wider) == listed(batch.edge_index)
        assert graph_of(batch.edge_index, batch.num_nodes - 1, batch.num_nodes) is None
