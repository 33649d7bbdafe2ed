"""Balanced weights are scikit-learn's, and what the loss is computed by."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, ModelError
from a3gnn.graphs.graph import Graph
from a3gnn.models.loss import loss_of
from a3gnn.models.own.user_model import UserModel
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer, TrainerOptions


def balanced(graph: Graph) -> torch.Tensor:
    """Returns the weights of classes that the loss has."""
    loss = loss_of(graph, Task(class_weights="balanced"), torch.device("cpu"))
    assert isinstance(loss, partial)
    return loss.keywords["weight"]


def test_they_are_those_of_scikit_learn(unbalanced_graph: Graph) -> None:
    labels = unbalanced_graph.labels[unbalanced_graph.train_ids]
    expected = compute_class_weight("balanced", classes=np.array([0, 1]), y=labels)
    assert balanced(unbalanced_graph).numpy() == pytest.approx(expected)
    assert loss_of(unbalanced_graph, Task(), torch.device("cpu")) is functional.cross_entropy


def test_a_class_without_a_seed_changes_no_other_weight(unbalanced_graph: Graph) -> None:
    more = dataclasses.replace(unbalanced_graph, num_classes=3)
    assert torch.equal(balanced(more)[:2], balanced(unbalanced_graph))


def test_the_loss_of_a_mini_batch_is_weighted(
    unbalanced_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    real = functional.cross_entropy

    def watched(logits: torch.Tensor, labels: torch.Tensor, **options: Any) -> torch.Tensor:
        seen.append((logits.detach(), labels))
        return real(logits, labels, **options)

    monkeypatch.setattr(functional, "cross_entropy", watched)
    task = Task(hidden_channels=16, fanouts=(3, 3), class_weights="balanced")
    with Trainer(unbalanced_graph, TrainConfig(batch_size=32), task, TrainerOptions(scratch=tmp_path)) as trainer:
        step = next(trainer.steps(0))
    weights = balanced(unbalanced_graph)
    logits, labels = seen[0]
    each = real(logits, labels, reduction="none")
    assert step.loss == pytest.approx(float((each * weights[labels]).sum() / weights[labels].sum()))
    assert step.loss != pytest.approx(float(each.mean()))


@pytest.mark.parametrize("own_loss", [False, True])
def test_a_model_of_the_users_weighs_by_them_unless_it_has_its_own_loss(own_loss: bool) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return x

    net, weights = Net(), torch.tensor([1.0, 3.0])
    if own_loss:
        net.loss = lambda outputs, labels: functional.cross_entropy(outputs, labels)  # type: ignore[assignment]
    model = UserModel.of("mine:make", net)
    loss = partial(functional.cross_entropy, weight=weights)
    if own_loss:
        with pytest.raises(ModelError, match="class_weights must be none for a model with its own loss"):
            model.with_loss(loss, "balanced", "classes")
        return
    outputs, labels = torch.randn(5, 2), torch.tensor([0, 1, 1, 0, 1])
    expected = functional.cross_entropy(outputs, labels, weight=weights)
    assert torch.equal(model.with_loss(loss, "balanced", "classes").loss(outputs, labels), expected)


def test_tasks_with_weights_have_a_key_of_their_own() -> None:
    task = Task(class_weights="balanced")
    assert Task.from_dict(task.to_dict()) == task
    assert task.key() != Task().key()
    assert "class_weights" not in Task().to_dict()
    with pytest.raises(A3GNNError, match="class_weights must be one of balanced, none"):
        Task(class_weights="rare")  # type: ignore[arg-type]
