"""What a mini-batch of a graph comes to."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.platforms.workload import Workload, paper_workloads
from a3gnn.sampling.sampler import Sampler
from a3gnn.task import Task


def test_it_is_what_is_sampled() -> None:
    """Within a fifth of the sampler's own counts, by layer: the volume model's own error."""
    graph = Graph.load("synthetic:nodes=4000,degree=12,features=16,classes=4")
    task = Task(model="gcn", fanouts=(8, 5), hidden_channels=32)
    workload = Workload.of(graph.characteristics(), task, 64)
    assert workload.widths == (16, 32, graph.num_classes)
    assert workload.num_batches == -(-len(graph.train_ids) // 64)
    sampler = Sampler(graph.edges, task.fanouts, seed=0)
    counted = []
    for batch in range(20):
        seeds = np.random.default_rng(batch).choice(graph.train_ids, 64, replace=False)
        subgraph = sampler.sample(seeds, 0, batch)
        blocks = [subgraph.block(layer) for layer in range(2)]
        counted.append([*(block.num_src for block in blocks), 64, *(len(block.indices) for block in blocks)])
    expected = [*workload.vertices, *workload.edges]
    assert expected == pytest.approx(np.mean(counted, axis=0), rel=0.2)


def test_the_papers_graphs() -> None:
    found = paper_workloads(Task(hidden_channels=128), 1024)
    assert [one.widths for one in found] == [(602, 128, 41), (300, 128, 100), (200, 128, 107), (100, 128, 47)]
    for one in found:
        assert one.vertices[2] == 1024
        assert one.vertices[0] > one.vertices[1] > one.vertices[2]
        assert one.vertices[1] <= 1024 * 26
        assert one.edges[1] <= 1024 * 25
        assert one.edges[0] > one.edges[1]


def test_layers_share_the_edges_of_earlier_hops() -> None:
    one = paper_workloads(Task(model="gcn", fanouts=(4, 3, 2)), TrainConfig().batch_size)[0]
    assert len(one.vertices) == 4
    assert len(one.edges) == 3
    assert one.edges[2] == pytest.approx(4096)
    assert one.edges[0] > one.edges[1] > one.edges[2]


def test_the_kernels_compute_no_attention() -> None:
    with pytest.raises(UsageError, match="must be sage or gcn for the kernels, got gat"):
        paper_workloads(Task(model="gat"), 1024)
