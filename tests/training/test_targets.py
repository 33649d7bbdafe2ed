"""Training on several labels per node, and on values: the loss, what is reached, and by what that is judged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error
from torch.nn import functional

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, GraphError, UsageError
from a3gnn.evaluation.choose_metric import suiting, with_metric
from a3gnn.evaluation.evaluate import Evaluator, metric_of, unlearnt
from a3gnn.evaluation.inference import Scratch
from a3gnn.graphs.graph import Graph
from a3gnn.metric import Target
from a3gnn.models.loss import loss_of
from a3gnn.models.model import build_model
from a3gnn.models.own.user_model import UserModel
from a3gnn.task import Task

_CPU = torch.device("cpu")
_CONFIG = TrainConfig(batch_size=32)
_TASK = Task(hidden_channels=16, fanouts=(5, 5), learning_rate=0.01)


@pytest.mark.parametrize(("kind", "metric"), [("labels_graph", "micro_f1"), ("values_graph", "mae")])
def test_what_is_learnt_is_better_than_one_answer_for_all(
    kind: str, metric: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    graph: Graph = request.getfixturevalue(kind)
    lines: list[str] = []
    found = train(_CONFIG, graph, task=_TASK, metric=metric, epochs=15, out=tmp_path / "run", notify=lines.append)
    assert found.val_accuracy > unlearnt(graph, found.task) + 0.1
    assert found.test_accuracy > unlearnt(graph, found.task)
    kept = json.loads((tmp_path / "run" / "result.json").read_text())
    assert kept["metric"] == metric_of(found.task, graph).to_dict()
    assert Task.from_dict(kept["task"]) == dataclasses.replace(_TASK, metric=metric)
    assert all("%" not in line for line in lines if line.startswith("epoch")) == (metric == "mae")


def test_an_error_is_that_of_all_labeled_nodes_and_shown_as_it_is(values_graph: Graph, tmp_path: Path) -> None:
    task = dataclasses.replace(_TASK, metric="mae")
    model = build_model(task, values_graph.num_features, values_graph.num_classes)
    evaluator = Evaluator(values_graph, task, scratch=Scratch(tmp_path), chunk_bytes=20_000)
    kept = values_graph.test_ids[~np.isnan(values_graph.labels[values_graph.test_ids])]
    outputs = np.concatenate([some[:, 0].numpy() for _, some in evaluator._inference(kept).logits(model.eval())])
    metric = metric_of(task, values_graph)
    error = mean_absolute_error(values_graph.labels[kept], outputs)
    assert metric.number(evaluator.test(model)) == pytest.approx(error, rel=1e-4)
    assert metric.show(evaluator.test(model)) == f"{error:.4g}"


def test_saying_the_median_of_the_train_nodes_has_quality_about_zero(values_graph: Graph) -> None:
    assert abs(unlearnt(values_graph, Task(metric="mae"))) < 0.2


def test_a_target_is_an_error(values_graph: Graph, tmp_path: Path) -> None:
    task = dataclasses.replace(_TASK, metric="mae")
    easy = 1.5 * metric_of(task, values_graph).number(0.0)
    options = {"task": task, "epochs": 3, "until_target": True}
    found = train(_CONFIG, values_graph, **options, target_accuracy=easy, out=tmp_path / "run")
    assert found.target_accuracy == pytest.approx(-0.5)
    assert found.batches_to_accuracy is not None
    assert found.ended == "target"
    with pytest.raises(UsageError, match="target_accuracy must be a positive MAE, got 0"):
        train(_CONFIG, values_graph, **options, target_accuracy=0, out=tmp_path / "other")


def test_the_loss_of_several_labels_is_binary_cross_entropy(labels_graph: Graph) -> None:
    labels = torch.from_numpy(labels_graph.labels[labels_graph.train_ids[:20]])
    outputs = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    expected = functional.binary_cross_entropy_with_logits(outputs, labels.float())
    assert torch.equal(loss_of(labels_graph, Task(), _CPU)(outputs, labels), expected)


def test_balanced_labels_weigh_zeros_and_ones_alike(labels_graph: Graph) -> None:
    """Over all train nodes, at outputs of 0, each label's ones contribute as much to the loss as its zeros."""
    labels = torch.from_numpy(labels_graph.labels[labels_graph.train_ids])
    loss = loss_of(labels_graph, Task(class_weights="balanced"), _CPU)
    for one in range(4):
        parts = []
        for value in (0, 1):
            outputs = torch.full(labels.shape, -100.0).where(labels == 0, 100.0)  # right, but for what is looked at
            outputs[:, one] = outputs[:, one].where(labels[:, one] != value, 0.0)
            parts.append(loss(outputs, labels).item())
        assert parts[0] == pytest.approx(parts[1], rel=1e-5)


@pytest.mark.parametrize(("name", "of"), [("mse", functional.mse_loss), ("mae", functional.l1_loss)])
def test_the_loss_of_values_is_what_the_task_says(values_graph: Graph, name: str, of: object) -> None:
    outputs, labels = torch.randn(9, 1), torch.randn(9)
    assert torch.equal(loss_of(values_graph, Task(loss=name), _CPU)(outputs, labels), of(outputs[:, 0], labels))


@pytest.mark.parametrize(("target", "of"), [("labels", torch.nn.BCEWithLogitsLoss()), ("values", torch.nn.MSELoss())])
def test_a_loss_of_the_users_is_given_labels_as_losses_of_torch_take_them(target: Target, of: torch.nn.Module) -> None:
    class Net(torch.nn.Module):
        loss = of

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return x

    outputs = torch.randn(6, 3 if target == "labels" else 1)
    labels = (torch.rand(6, 3) < 0.5).to(torch.int8) if target == "labels" else torch.randn(6)
    model = UserModel.of("mine:make", Net()).with_loss(functional.cross_entropy, "none", target)
    assert torch.equal(model.loss(outputs, labels), of(outputs, labels.float().reshape(outputs.shape)))


def test_losses_and_metrics_of_other_labels_are_refused(
    values_graph: Graph, labels_graph: Graph, tiny_graph: Graph
) -> None:
    with pytest.raises(ConfigError, match="class_weights must be none if values are predicted"):
        with_metric(Task(class_weights="balanced"), "auto", values_graph, print)
    for graph in (labels_graph, tiny_graph):
        with pytest.raises(ConfigError, match=f"loss must be left out if {graph.target} are predicted, got mae"):
            with_metric(Task(loss="mae"), "auto", graph, print)
    with pytest.raises(
        GraphError, match="must be one of mae, rmse, r2 if values are predicted, got accuracy; auto chooses"
    ):
        with_metric(Task(), None, values_graph, print)
    same = dataclasses.replace(values_graph, labels=np.ones(values_graph.num_nodes, dtype=np.float32))
    with pytest.raises(GraphError, match="train nodes with different values"):
        with_metric(Task(), "auto", same, print)


def test_the_metric_suits_the_labels(values_graph: Graph, labels_graph: Graph) -> None:
    assert suiting(values_graph) == ("mae", "metric: MAE, because the labels are values")
    assert suiting(labels_graph)[0] == "micro_f1"
    rare = labels_graph.labels.copy()
    rare[:, 1:] = np.minimum(rare[:, 1:], 0)
    assert suiting(dataclasses.replace(labels_graph, labels=rare))[0] == "roc_auc"
