"""Evaluation that is shared out finds what one process finds."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from a3gnn.evaluation.evaluate import Evaluator, joined_quality
from a3gnn.evaluation.inference import Scratch
from a3gnn.evaluation.tally import new_tally
from a3gnn.graphs.graph import Graph
from a3gnn.metric import Metric
from a3gnn.models.model import build_model
from a3gnn.ranks.exchange import RowExchange
from a3gnn.task import Task
from tests.training.loops import with_self_loops
from tests.training.ranks.threads import BUILDING, ThreadRanks, together


def qualities(graph: Graph, task: Task, folder: Any, ranks: ThreadRanks | None) -> tuple[float, float]:
    evaluator = Evaluator(graph, task, scratch=Scratch(folder), ranks=ranks, chunk_bytes=20_000)
    with BUILDING:
        model = build_model(task, graph.num_features, graph.num_classes)
    return evaluator.validate(model), evaluator.test(model)


#: The tally doesn't know the model: each of them with one metric, and each metric with one model; the rest is weekly.
PAIRS = [
    pytest.param(model, metric, marks=[] if model == "sage" or metric == "accuracy" else pytest.mark.weekly)
    for model in ("sage", "gcn", "gat", "gin")
    for metric in ("accuracy", "macro_f1", "roc_auc", "average_precision")
]


@pytest.mark.parametrize(("model", "metric"), PAIRS)
def test_qualities_are_the_same_bits(model, metric, small_graph, tmp_path):
    graph = with_self_loops(small_graph)
    # Narrow to wide maps after the sum, wide to narrow before it: layers read own rows from one place or another.
    task = Task(model=model, metric=metric, hidden_channels=8, fanouts=(4, 3, 2), heads=2)
    expected = qualities(graph, task, tmp_path, None)
    for size in (2, 3):
        found = together(size, lambda ranks: qualities(graph, task, tmp_path / str(ranks.rank), ranks))
        assert found == [expected] * size


def test_sparse_features_are_shared_out(sparse_graph, tmp_path):
    task = Task(hidden_channels=8, fanouts=(4, 3))
    expected = qualities(sparse_graph, task, tmp_path, None)
    assert together(2, lambda ranks: qualities(sparse_graph, task, tmp_path, ranks)) == [expected] * 2


def test_fewer_nodes_than_ranks_are_computed_by_all(tiny_graph, tmp_path):
    few = dataclasses.replace(tiny_graph, val_ids=tiny_graph.val_ids[:2], test_ids=tiny_graph.test_ids[:3])
    task = Task(hidden_channels=8, fanouts=(4, 3))
    expected = qualities(few, task, tmp_path, None)
    assert together(3, lambda ranks: qualities(few, task, tmp_path, ranks)) == [expected] * 3


@pytest.mark.parametrize(
    ("target", "name", "columns"),
    [("classes", "macro_f1", 4), ("labels", "accuracy", 3), ("labels", "micro_f1", 3), ("labels", "roc_auc", 3)],
)
def test_tallies_join(target, name, columns):
    rng = np.random.default_rng(0)
    outputs = torch.from_numpy(rng.standard_normal((40, columns)).astype(np.float32))
    labels = rng.integers(0, columns, 40) if target == "classes" else rng.integers(0, 2, (40, columns))
    metric = Metric(name, None)
    whole = new_tally(metric, target, columns)
    whole.add(outputs, labels)

    def work(ranks: ThreadRanks) -> float:
        own = slice(0, 13) if not ranks.rank else slice(13, None)
        tally = new_tally(metric, target, columns)
        tally.add(outputs[own], labels[own])
        return joined_quality(tally, ranks)

    assert together(2, work) == [whole.quality()] * 2


@pytest.mark.parametrize("metric", [Metric("mae", 2.0), Metric("rmse", 2.0), Metric("r2")], ids=lambda one: one.name)
def test_errors_join_to_rounding(metric: Metric):
    outputs, labels = torch.randn(50, 1), np.linspace(0, 3, 50)
    whole = new_tally(metric, "values", 1)
    whole.add(outputs, labels)

    def work(ranks: ThreadRanks) -> float:
        tally = new_tally(metric, "values", 1)
        tally.add(outputs[ranks.rank :: 2], labels[ranks.rank :: 2])
        return joined_quality(tally, ranks)

    assert together(2, work) == [pytest.approx(whole.quality(), abs=1e-12)] * 2


def test_runs_are_even_and_never_empty(small_graph):
    ids = np.arange(0, small_graph.num_nodes, 3, dtype=np.int32)

    class Of:
        rank, size = 0, 4

    exchange = RowExchange(small_graph, Of())  # type: ignore[arg-type]
    bounds = exchange.bounds(ids)
    edges = np.diff(small_graph.indptr)[ids] + 1
    work = [int(edges[low:high].sum()) for low, high in pairwise(bounds)]
    assert max(work) < 1.2 * min(work)
    assert np.diff(exchange.bounds(ids[:4])).tolist() == [1, 1, 1, 1]
    some = ids[5:200:7]
    assert [set(some[low:high]) for low, high in pairwise(exchange.within(some, ids))] == [
        set(some) & set(ids[low:high]) for low, high in pairwise(bounds)
    ]
