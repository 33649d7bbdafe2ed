"""`Loader` over parts gives the mini-batches of one over the graph itself."""

from typing import Any

import pytest
import torch

from a3gnn.errors import ConfigError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.loader.loader import Loader
from a3gnn.parts.graph import PartedGraph


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional"])
def test_mini_batches_are_the_same(small_graph: Graph, parted: PartedGraph, workers: int, subgraph_type: str) -> None:
    given: dict[str, Any] = {
        "num_neighbors": [6, -1],
        "input_nodes": small_graph.train_ids,
        "batch_size": 200,
        "shuffle": True,
        "seed": 5,
        "num_workers": workers,
        "subgraph_type": subgraph_type,
        "config": {"cache_bytes": 100_000},
    }
    here, there = Loader(small_graph, **given), Loader(parted, **given)
    assert len(here) == len(there)
    for _ in range(2):
        for mine, theirs in zip(there, here, strict=True):
            assert mine.keys() == theirs.keys()
            for name, value in mine.to_dict().items():
                other = theirs[name]
                assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other


def test_a_spec_is_taken(parted: PartedGraph) -> None:
    loader = Loader(f"parts:{','.join(parted.client.addresses)}", [3], input_nodes=[1, 2, 3], batch_size=2)
    assert [batch.batch_size for batch in loader] == [2, 1]


def test_single_mini_batches_are_the_same(small_graph: Graph, parted: PartedGraph) -> None:
    here, there = (Loader(graph, [4, 4], batch_size=2) for graph in (small_graph, parted))
    for _ in range(2):
        mine, theirs = there([7, 3]), here([7, 3])
        assert torch.equal(mine.x, theirs.x)
        assert torch.equal(mine.edge_index, theirs.edge_index)


@pytest.mark.parametrize(
    "asked",
    [
        {"replace": True},
        {"disjoint": True},
        {"subgraph_type": "induced"},
        {"input_nodes": [1, 1]},
        {"batch_sampler": [[1, 2]]},
    ],
    ids=str,
)
def test_edges_that_are_not_here_are_refused(parted: PartedGraph, asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="graph servers sample distinct in-neighbors"):
        Loader(parted, [3], **asked)


def test_knobs_are_refused_as_in_training(parted: PartedGraph) -> None:
    with pytest.raises(ConfigError, match="num_partitions must be 1 over parts, got 2"):
        Loader(parted, [3], config={"num_partitions": 2})
