"""The loss for a graph's kind of labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from a3gnn.errors import ConfigError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import target_of
from a3gnn.task import Task

#: The advice if training diverges.
LESS_STEEP = "a smaller learning_rate or learning_rate_scale, or normalized features may help"


#: Takes the seeds' outputs, float32, (num_seeds, num_classes), and their labels; returns their mean loss.
Loss = Callable[[Tensor, Tensor], Tensor]


def loss_of(graph: Graph, task: Task, device: torch.device) -> Loss:
    """Returns the loss: cross-entropy for classes, binary cross-entropy for labels, the task's `loss` for values.

    Raises:
        ConfigError: The task's loss or class weights don't fit the labels.
    """
    check_loss(graph, task)
    weights = None if task.class_weights == "none" else _balanced(graph).to(device)
    match target_of(graph.labels):
        case "classes":
            return functional.cross_entropy if weights is None else partial(functional.cross_entropy, weight=weights)
        case "labels":
            return partial(_of_labels, weights=weights)
        case "values":
            return partial(_of_values, functional.l1_loss if task.loss == "mae" else functional.mse_loss)


def loss_weight(graph: Graph, task: Task) -> Callable[[NDArray[Any]], float]:
    """Returns a function of labels that gives the denominator of the mean loss.

    It is the number of labels, or the sum of their class weights. A share's weight in a mini-batch is its denominator
    divided by the whole mini-batch's.
    """
    if task.class_weights == "none" or graph.target != "classes":
        return lambda labels: float(len(labels))
    weights = _balanced(graph).numpy().astype(np.float64)
    return lambda labels: float(weights[labels].sum())


def check_loss(graph: Graph, task: Task) -> None:
    """Checks that the task's loss and class weights fit the labels of `graph`.

    Raises:
        ConfigError: They don't.
    """
    if graph.target == "values" and task.class_weights != "none":
        raise ConfigError(f"class_weights must be none if values are predicted, got {task.class_weights}")
    if graph.target != "values" and task.loss != "mse":
        raise ConfigError(f"loss must be left out if {graph.target} are predicted, got {task.loss}, which needs values")


def _balanced(graph: Graph) -> Tensor:
    """Returns balanced weights, float32: per class, (num_classes,), or for 0 and 1 of each label, (2, num_classes).

    They are scikit-learn's n / (k n_c), with n train seeds, n_c of them in the class, and k classes among the seeds. So
    each class has the same total weight, and all classes together n. A class without seeds has an unused weight of 1.
    """
    labels = graph.labels[graph.train_ids]
    if graph.target == "labels":
        counts = np.stack([(labels == 0).sum(axis=0), (labels == 1).sum(axis=0)])
    else:
        counts = np.bincount(labels, minlength=graph.num_classes)
    kinds = (counts > 0).sum(axis=0, keepdims=True)
    weights = np.where(counts > 0, len(labels) / (kinds * np.maximum(counts, 1)), 1.0)
    return torch.from_numpy(weights.astype(np.float32))


def _of_labels(outputs: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    each = None if weights is None else torch.where(labels == 1, weights[1], weights[0])
    return functional.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), weight=each)


def _of_values(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    return loss(outputs[:, 0], labels)
