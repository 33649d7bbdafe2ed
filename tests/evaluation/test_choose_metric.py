"""Which metric suits a graph's labels, and that it is what training is judged by."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import GraphError, UsageError
from a3gnn.evaluation.choose_metric import MOST_IN_ONE_CLASS, suiting, with_metric
from a3gnn.evaluation.evaluate import Evaluator, unlearnt
from a3gnn.evaluation.inference import Scratch
from a3gnn.graphs.graph import Graph
from a3gnn.metric import METRIC_LABELS
from a3gnn.models.model import build_model
from a3gnn.task import Task


def with_shares(graph: Graph, *shares: float) -> Graph:
    """Returns `graph` with about such shares of its nodes in each class."""
    labels = np.searchsorted(np.cumsum(shares), np.arange(graph.num_nodes) * 7919 % graph.num_nodes / graph.num_nodes)
    return dataclasses.replace(graph, labels=labels.astype(np.int64), num_classes=len(shares))


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ((0.5, 0.5), "accuracy"),
        ((0.8, 0.2), "roc_auc"),
        ((0.4, 0.3, 0.3), "accuracy"),
        ((0.8, 0.1, 0.1), "macro_f1"),
    ],
)
def test_the_balance_of_the_classes_chooses(tiny_graph: Graph, shares: tuple[float, ...], name: str) -> None:
    graph = with_shares(tiny_graph, *shares)
    chosen, line = suiting(graph)
    assert chosen == name
    assert line.startswith(f"metric: {METRIC_LABELS[name]}, because ")
    share = np.bincount(graph.labels[graph.val_ids]).max() / len(graph.val_ids)
    assert f"{share:.0%} of the validation nodes are in one class" in line
    assert (share > MOST_IN_ONE_CLASS) == (name != "accuracy")


def test_labels_of_one_class_are_said_to_be(tiny_graph: Graph) -> None:
    chosen, line = suiting(with_shares(tiny_graph, 1.0))
    assert (chosen, line) == (
        "accuracy",
        "metric: accuracy, which is 100% for any model, because all labels are of one class",
    )


def test_two_classes_of_which_one_is_not_in_the_test_nodes_are_not_ranked(tiny_graph: Graph) -> None:
    graph = with_shares(tiny_graph, 0.8, 0.2)
    labels = graph.labels.copy()
    labels[graph.test_ids] = 0
    graph = dataclasses.replace(graph, labels=labels)
    assert suiting(graph)[0] == "macro_f1"
    with pytest.raises(GraphError, match="roc_auc needs test nodes of at least two classes"):
        with_metric(Task(), "roc_auc", graph, print)


def test_a_metric_that_is_asked_for_is_taken_and_nothing_is_said(tiny_graph: Graph) -> None:
    lines: list[str] = []
    assert with_metric(Task(seed=3), "micro_f1", tiny_graph, lines.append) == Task(seed=3, metric="micro_f1")
    assert with_metric(Task(metric="macro_f1"), None, tiny_graph, lines.append) == Task(metric="macro_f1")
    assert not lines
    assert with_metric(Task(metric="macro_f1"), "auto", tiny_graph, lines.append) == Task()
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("name", "found"), [("accuracy", 0.75), ("macro_f1", 3 / 7), ("roc_auc", 0.5), ("average_precision", 0.25)]
)
def test_what_takes_no_learning(tiny_graph: Graph, name: str, found: float) -> None:
    labels = tiny_graph.labels.copy()
    kept = tiny_graph.val_ids[: len(tiny_graph.val_ids) // 4 * 4]
    labels[kept] = np.arange(len(kept)) % 4 == 0
    graph = dataclasses.replace(tiny_graph, labels=labels, val_ids=kept, num_classes=4)
    if name in ("accuracy", "macro_f1"):
        assert unlearnt(graph, Task(metric=name)) == pytest.approx(found)
    else:
        two = dataclasses.replace(graph, labels=np.minimum(labels, 1), num_classes=2)
        assert unlearnt(two, Task(metric=name)) == pytest.approx(found)


def test_evaluation_is_by_the_metric(tiny_graph: Graph, tmp_path: Path) -> None:
    task = Task(hidden_channels=16, metric="macro_f1")
    model = build_model(task, tiny_graph.num_features, tiny_graph.num_classes)
    found = Evaluator(tiny_graph, task, scratch=Scratch(tmp_path), chunk_bytes=20_000)
    inference = found._inference(tiny_graph.test_ids)
    predicted = np.concatenate([some.argmax(dim=1).numpy() for _, some in inference.logits(model.eval())])
    labels = tiny_graph.labels[tiny_graph.test_ids]
    expected = f1_score(labels, predicted, average="macro", labels=np.unique(labels), zero_division=0.0)
    assert found.test(model) == pytest.approx(expected)


def test_training_is_judged_by_the_metric_and_says_so(unbalanced_graph: Graph, tmp_path: Path) -> None:
    lines: list[str] = []
    task = Task(hidden_channels=16, fanouts=(5, 5), learning_rate=0.01)
    config = TrainConfig(batch_size=32)
    auto = train(config, unbalanced_graph, task=task, metric="auto", epochs=3, out=tmp_path / "a", notify=lines.append)
    assert lines[0].startswith("metric: ROC AUC, because ")
    assert auto.task == dataclasses.replace(task, metric="roc_auc")
    kept = json.loads((tmp_path / "a" / "result.json").read_text())
    assert kept["metric"] == {"name": "roc_auc", "scale": None}
    plain = train(config, unbalanced_graph, task=task, epochs=3, out=tmp_path / "b")
    assert plain.task == task
    assert plain.val_accuracy != auto.val_accuracy
    with pytest.raises(UsageError, match=r"^metric must be one of .*did you mean 'macro_f1'"):
        train(config, unbalanced_graph, metric="macro-f1")
