"""Predictions by groups of columns are PyG's of the whole graph, whatever the groups, and take what the plan says."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn.models import GCN

from a3gnn.evaluation.column_groups import ColumnInference, ColumnPlan, columnwise, vector_bytes, widest_bytes
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.models.model import Model, build_model
from a3gnn.task import Task
from tests.training.pyg import pyg_logits, whole

_FLOAT32, _FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)


def by_columns(model: Model, graph: Graph, folder: Path, columns: int, dtype=_FLOAT32, **options) -> Tensor:
    """The logits by groups of `columns` columns of float32."""
    room = 4 * graph.num_nodes * columns + vector_bytes(graph, model)
    plan = ColumnPlan.of(graph, model.eval(), room, dtype)
    assert plan.memory_bytes <= room
    found = list(ColumnInference(graph, model, plan, scratch=Scratch(folder), **options).logits())
    assert np.array_equal(np.concatenate([ids for ids, _ in found]), np.arange(graph.num_nodes))
    return torch.cat([rows for _, rows in found])


def random_graph(seed: int, nodes: int, degree: float, features: int, dtype: type = np.float32) -> Graph:
    """A directed graph with loops, hubs, nodes without edges, and features of every size."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, nodes, (2, int(nodes * degree)))
    ends[1, : len(ends[1]) // 4] = 0
    sources, targets = np.unique(ends, axis=1)
    order = np.lexsort((sources, targets))
    indptr = np.concatenate([[0], np.bincount(targets, minlength=nodes).cumsum()]).astype(np.int64)
    x = rng.standard_normal((nodes, features)).astype(dtype)
    every = np.arange(nodes, dtype=np.int32)
    labels = rng.integers(0, 3, nodes)
    indices = sources[order].astype(np.int32)
    return Graph("random", indptr, indices, DenseFeatures(x), labels, every[2:], every[:1], every[1:2], 3)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    model=st.sampled_from(["sage", "gcn", "gin"]),
    norm=st.sampled_from(["none", "batch", "layer"]),
    layers=st.integers(1, 3),
    features=st.sampled_from([1, 5, 33]),
    hidden=st.sampled_from([2, 7, 40]),
    columns=st.sampled_from([1, 2, 3, 8, 17, 64]),
    half=st.booleans(),
    chunk_bytes=st.sampled_from([1, 3_000, 1 << 25]),
)
def test_equals_pyg_on_random_graphs(
    seed, model, norm, layers, features, hidden, columns, half, chunk_bytes, tmp_path_factory
) -> None:
    graph = random_graph(seed, 3 + seed % 60, seed % 7, features, np.float16 if half else np.float32)
    task = Task(model=model, norm=norm, hidden_channels=hidden, fanouts=(5,) * layers, seed=seed % 100)
    ours = build_model(task, graph.num_features, graph.num_classes)
    expected = pyg_logits(task, ours, graph)
    found = by_columns(ours, graph, tmp_path_factory.mktemp("scratch"), columns, chunk_bytes=chunk_bytes)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("residual", [True, "linear"])
@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_equals_inference_by_rows_with_residuals_and_sparse_features(
    model, residual, small_graph, sparse_graph, tmp_path
):
    for graph, hidden in itertools.product((small_graph, sparse_graph), (8, 64)):
        task = Task(model=model, hidden_channels=hidden, fanouts=(5, 5, 5), residual=residual)
        sparse = graph.features.is_sparse
        ours = build_model(task, graph.num_features, graph.num_classes, sparse=sparse).eval()
        every = np.arange(graph.num_nodes, dtype=np.int32)
        rows = Inference(graph, every, 3, scratch=Scratch(tmp_path)).logits(ours)
        expected = torch.cat([some for _, some in rows])
        torch.testing.assert_close(by_columns(ours, graph, tmp_path, 5), expected, rtol=1e-4, atol=1e-4)


def test_weights_of_edges_are_those_of_pyg(tiny_graph, tmp_path):
    weights = np.random.default_rng(0).uniform(0.1, 2, tiny_graph.num_edges).astype(np.float32)
    graph = random_graph(3, 50, 4, 6)
    weights = np.resize(weights, graph.num_edges)
    task = Task(model="gcn", hidden_channels=9, fanouts=(5, 5), edge_dim=1)
    ours = build_model(task, graph.num_features, graph.num_classes)
    theirs = GCN(graph.num_features, 9, 2, graph.num_classes)
    theirs.load_state_dict(ours.state_dict())
    with torch.no_grad():
        expected = theirs.eval()(*whole(graph), edge_weight=torch.from_numpy(weights))
    found = by_columns(ours, graph, tmp_path, 4, edges=weights)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_halves_round_layers_rows(model, small_graph, tmp_path):
    halves = dataclasses.replace(small_graph, features=DenseFeatures(small_graph.features.array.astype(np.float16)))
    task = Task(model=model, hidden_channels=48, fanouts=(5, 5))
    ours = build_model(task, halves.num_features, halves.num_classes).eval()
    exact, rounded = (by_columns(ours, halves, tmp_path, 8, dtype) for dtype in (_FLOAT32, _FLOAT16))
    size = exact.abs().max()
    assert 0 < (exact - rounded).abs().max() < 0.02 * size


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_scratch_takes_what_the_plan_says(model, small_graph, tmp_path):
    for hidden, dtype, layers in itertools.product((4, 64), (_FLOAT32, _FLOAT16), (1, 2, 3)):
        task = Task(model=model, hidden_channels=hidden, fanouts=(5,) * layers)
        ours = build_model(task, small_graph.num_features, small_graph.num_classes).eval()
        plan = ColumnPlan.of(small_graph, ours, 9 * small_graph.num_nodes, dtype)
        scratch, held, most = CountedScratch(tmp_path), [], []
        for _ in ColumnInference(small_graph, ours, plan, scratch=scratch).logits():
            held.append(sum(size for file, size in scratch.files if not file.closed))
            most.append(scratch.most)
        assert max(most) == plan.scratch_bytes
        assert held[-1] == plan.last_bytes
        assert all(file.closed for file, _ in scratch.files)
        assert not list(tmp_path.iterdir())


class CountedScratch(Scratch):
    """Notes the most bytes of files that are open at once."""

    most = 0

    def file(self, size: int):
        made = super().file(size)
        self.files = [*getattr(self, "files", []), (made, size)]
        self.most = max(self.most, sum(size for file, size in self.files if not file.closed))
        return made


def test_columns_are_whole_cache_lines_or_parts_of_one(small_graph):
    ours = build_model(Task(hidden_channels=64, fanouts=(5, 5)), small_graph.num_features, 50)
    for most, expected in {100: 50, 49: 48, 31: 16, 15: 8, 7: 4, 3: 2, 1: 1, 0: 1}.items():
        plan = ColumnPlan.of(small_graph, ours, 4 * small_graph.num_nodes * most, _FLOAT32)
        assert plan.layers[1].columns == expected
        assert plan.layers[1].count == -(-50 // expected)


@pytest.mark.parametrize("model", ["sage", "gcn", "gin", "gat", "gatv2", "transformer"])
def test_attention_needs_whole_rows(model, small_graph):
    task = Task(model=model, hidden_channels=64, fanouts=(5, 5), heads=2)
    ours = build_model(task, small_graph.num_features, small_graph.num_classes)
    assert columnwise(ours) == (model in {"sage", "gcn", "gin"})
    assert widest_bytes(small_graph, ours) >= min(small_graph.features.nbytes, 4 * 64 * small_graph.num_nodes)
