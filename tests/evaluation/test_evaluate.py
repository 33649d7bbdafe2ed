from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from a3gnn.errors import A3GNNError, GraphError
from a3gnn.evaluation.evaluate import Evaluator, unlearnt, validated
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.evaluation.neighborhoods import chunks
from a3gnn.evaluation.references import references
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.models.model import Model, build_model
from a3gnn.task import Task
from tests.training.pyg import pyg_logits


def our_logits(model: Model, graph: Graph, ids: np.ndarray, folder, **options) -> Tensor:
    inference = Inference(graph, ids, len(model.layers), scratch=Scratch(folder), **options)
    parts = list(inference.logits(model.eval()))
    assert np.array_equal(np.concatenate([some for some, _ in parts]), ids)
    return torch.cat([logits for _, logits in parts])


@pytest.mark.parametrize("in_place", [True, False], ids=["in_place", "gathered"])
@pytest.mark.parametrize("chunk_bytes", [4_000, 50_000])
@pytest.mark.parametrize("model", ["sage", "gcn", "gin", "gat", "gatv2", "transformer"])
def test_equals_pyg_on_the_full_graph(model, chunk_bytes, in_place, tiny_graph, tmp_path):
    task = Task(model=model, hidden_channels=24, fanouts=(5, 5, 5), heads=2)
    ours = build_model(task, tiny_graph.num_features, tiny_graph.num_classes)
    ids = np.union1d(tiny_graph.val_ids, tiny_graph.test_ids)[::3]
    logits = our_logits(ours, tiny_graph, ids, tmp_path, chunk_bytes=chunk_bytes, in_place=in_place)
    expected = pyg_logits(task, ours, tiny_graph)[torch.from_numpy(ids)]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ["sage", "gcn", "gin", "gat", "gatv2", "transformer"])
def test_sparse_features_equal_pyg(model, sparse_graph, tmp_path):
    task = Task(model=model, hidden_channels=16, fanouts=(5, 5), heads=2)
    ours = build_model(task, sparse_graph.num_features, sparse_graph.num_classes)
    logits = our_logits(ours, sparse_graph, sparse_graph.test_ids, tmp_path, chunk_bytes=20_000)
    expected = pyg_logits(task, ours, sparse_graph)[torch.from_numpy(sparse_graph.test_ids)]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hidden", [8, 64])
def test_half_precision_features_equal_pyg(hidden, tiny_graph, tmp_path):
    half = dataclasses.replace(tiny_graph, features=DenseFeatures(tiny_graph.features.array.astype(np.float16)))
    task = Task(hidden_channels=hidden, fanouts=(5, 5))
    ours = build_model(task, half.num_features, half.num_classes)
    logits = our_logits(ours, half, half.test_ids, tmp_path)
    expected = pyg_logits(task, ours, half)[torch.from_numpy(half.test_ids)]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


class CountingScratch(Scratch):
    """Notes the rows of each matrix."""

    def matrix(self, rows: int, columns: int, beside: int = 0) -> Tensor:
        self.rows = [*getattr(self, "rows", []), rows]
        return super().matrix(rows, columns, beside)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("hidden", [8, 64])  # narrow layers map before they aggregate
@pytest.mark.parametrize("model", ["sage", "gcn", "gin", "gat", "gatv2", "transformer"])
def test_few_nodes_need_scratch_for_the_nodes_around_them_only(model, hidden, dtype, small_graph, tmp_path):
    graph = dataclasses.replace(small_graph, features=DenseFeatures(small_graph.features.array.astype(dtype)))
    task = Task(model=model, hidden_channels=hidden, fanouts=(5, 5), heads=2)
    ours = build_model(task, graph.num_features, graph.num_classes)
    ids, scratch = graph.val_ids[:2], CountingScratch(tmp_path)
    inference = Inference(graph, ids, 2, scratch=scratch)
    logits = torch.cat([rows for _, rows in inference.logits(ours.eval())])
    every = np.arange(graph.num_nodes, dtype=np.int32)
    torch.testing.assert_close(logits, our_logits(ours, graph, every, tmp_path)[torch.from_numpy(ids)])
    reached = np.unique(np.concatenate([ids, graph.in_edges(ids)[1]]))
    reached = np.unique(np.concatenate([reached, graph.in_edges(reached)[1]]))
    assert len(reached) < graph.num_nodes // 2
    assert max(scratch.rows) <= len(reached)


def test_accuracies_leave_out_unlabeled_nodes(tiny_graph, tmp_path):
    labels = tiny_graph.labels.copy()
    labels[tiny_graph.test_ids[::2]] = -1
    graph = dataclasses.replace(tiny_graph, labels=labels)
    task = Task(hidden_channels=16)
    model = build_model(task, graph.num_features, graph.num_classes).train()
    evaluator = Evaluator(graph, task, scratch=Scratch(tmp_path))
    predicted = pyg_logits(task, model, graph).argmax(dim=1).numpy()
    kept = tiny_graph.test_ids[1::2]
    assert evaluator.test(model) == pytest.approx((predicted[kept] == labels[kept]).mean())
    assert evaluator.validate(model) == pytest.approx((predicted[graph.val_ids] == labels[graph.val_ids]).mean())
    assert model.training


def test_validation_takes_as_many_nodes_as_the_seed_chooses(tiny_graph, tmp_path, monkeypatch):
    assert np.array_equal(validated(tiny_graph, Task()), tiny_graph.val_ids)
    most = len(tiny_graph.val_ids) // 2
    monkeypatch.setattr("a3gnn.evaluation.evaluate.MOST_VALIDATED", most)
    chosen = validated(tiny_graph, Task(seed=1))
    assert len(chosen) == most
    assert (np.diff(chosen) > 0).all()
    assert set(chosen) < set(tiny_graph.val_ids)
    assert np.array_equal(chosen, validated(tiny_graph, Task(seed=1, hidden_channels=8)))
    assert not np.array_equal(chosen, validated(tiny_graph, Task(seed=2)))
    task = Task(hidden_channels=16, seed=1)
    model = build_model(task, tiny_graph.num_features, tiny_graph.num_classes)
    right = pyg_logits(task, model, tiny_graph).argmax(dim=1).numpy() == tiny_graph.labels
    evaluator = Evaluator(tiny_graph, task, scratch=Scratch(tmp_path))
    assert evaluator.validate(model) == pytest.approx(right[chosen].mean())


def test_of_very_many_test_nodes_a_rehearsal_evaluates_a_sample(small_graph, tmp_path, monkeypatch):
    task = Task(hidden_channels=16)
    model = build_model(task, small_graph.num_features, small_graph.num_classes)
    evaluator = Evaluator(small_graph, task, scratch=Scratch(tmp_path))
    assert not evaluator.rehearse_test(model), "few are evaluated all, by the caller"
    asked = []

    class Noted(Inference):
        def logits(self, model: Model):
            for ids, rows in super().logits(model):
                asked.extend(ids.tolist())
                yield ids, rows

    monkeypatch.setattr("a3gnn.evaluation.evaluate.Inference", Noted)
    monkeypatch.setattr("a3gnn.evaluation.evaluate._MOST_REHEARSED", 100)
    monkeypatch.setattr("a3gnn.evaluation.evaluate.MOST_VALIDATED", 50)
    assert Evaluator(small_graph, task, scratch=Scratch(tmp_path)).rehearse_test(model)
    assert 25 < len(asked) <= 50
    assert set(asked) < set(small_graph.test_ids.tolist())


@pytest.mark.parametrize("aggregated", [False, True], ids=["features", "table"])
@pytest.mark.parametrize("model", ["sage", "gcn", "gin", "gat", "gatv2", "transformer"])
def test_an_evaluation_can_be_ended_before_any_chunk_and_done_again(model, aggregated, tiny_graph, tmp_path):
    """Also before those in which it finds out which nodes a layer needs, their degrees, and the table."""
    task = Task(model=model, hidden_channels=16, heads=2)
    net = build_model(task, tiny_graph.num_features, tiny_graph.num_classes).train()
    left = [10**9]

    def countdown() -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    graph = tiny_graph.on_disk(tmp_path) if aggregated else tiny_graph
    options = {
        "scratch": Scratch(tmp_path),
        "chunk_bytes": 20_000,
        "on_chunk": countdown,
        "aggregator": net.aggregator if aggregated else None,
    }
    for stop in (2, 5):
        left[0] = stop
        with pytest.raises(KeyboardInterrupt):
            Evaluator(graph, task, **options).validate(net)
    left[0] = 10**9
    evaluator = Evaluator(graph, task, **options)
    expected = Evaluator(tiny_graph, task, scratch=Scratch(tmp_path))
    for stop in (1, 2, 4):
        for evaluate in (evaluator.validate, evaluator.test):
            left[0] = stop
            with pytest.raises(KeyboardInterrupt):
                evaluate(net)
            assert net.training
    assert evaluator.validate(net) == expected.validate(net)
    assert evaluator.test(net) == expected.test(net)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_split_without_a_label_is_refused(split, tiny_graph, tmp_path):
    labels = tiny_graph.labels.copy()
    labels[tiny_graph.test_ids if split == "test" else tiny_graph.val_ids] = -1
    with pytest.raises(GraphError, match=f"labeled {split} nodes"):
        Evaluator(dataclasses.replace(tiny_graph, labels=labels), Task(), scratch=Scratch(tmp_path))


def test_chunks_keep_the_budget_and_the_order(tiny_graph):
    ids = np.arange(0, tiny_graph.num_nodes, 2, dtype=np.int32)
    pieces = list(chunks(ids, tiny_graph.indptr, 10, 3, budget=500))
    degrees = np.diff(tiny_graph.indptr)
    assert np.array_equal(np.concatenate(pieces), ids)
    assert len(pieces) > 3
    assert all(len(p) == 1 or (10 + 3 * degrees[p]).sum() <= 500 for p in pieces)


def test_chunks_end_where_they_always_did() -> None:
    ids, indptr = np.arange(300_000, dtype=np.int32), np.arange(300_001)
    lengths = [len(piece) for piece in chunks(ids, indptr, 8, 0, budget=1 << 30)]
    assert lengths == [1 << 17, 1 << 17, 300_000 - (1 << 18)]


def test_in_edges_of_a_run_and_of_scattered_nodes_agree(tiny_graph):
    run = np.arange(40, 60, dtype=np.int32)
    indptr, indices = tiny_graph.in_edges(run)
    for keep in (run[::3], run[[0, -1]]):
        some_indptr, some = tiny_graph.in_edges(keep)
        expected = [indices[indptr[v - 40] : indptr[v - 39]] for v in keep]
        assert np.array_equal(some, np.concatenate(expected))
        assert np.array_equal(np.diff(some_indptr), [len(e) for e in expected])


def test_scratch_leaves_no_file_and_refuses_a_full_disk(tmp_path):
    scratch = Scratch(tmp_path / "new")
    matrix = scratch.matrix(5, 3)
    matrix[2] = 1.0
    assert matrix.sum() == 3
    assert not list((tmp_path / "new").iterdir())
    with pytest.raises(A3GNNError, match="of disk space in"):
        scratch.matrix(2**46, 2**10)


def test_label_propagation_predicts_every_kind_of_labels(tiny_graph, labels_graph, values_graph):
    found = references("test", tiny_graph, Task(), 10**9)
    assert found["label propagation"] > 0.6 > unlearnt(tiny_graph, Task())
    for graph, metric in ((labels_graph, "micro_f1"), (values_graph, "mae")):
        task = Task(metric=metric)
        assert references("validation", graph, task, 10**9)["label propagation"] > unlearnt(graph, task)


def test_label_propagation_is_left_out_where_memory_does_not_do(tiny_graph):
    assert references("test", tiny_graph, Task(), 1000) == {}
