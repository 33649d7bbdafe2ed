"""`Tally`: takes a model's outputs chunk by chunk, and says how good they are by a metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import GraphError
from a3gnn.metric import Metric, MetricName
from a3gnn.training.ranking import average_precision, roc_auc

#: The metrics that tell positive nodes from negative ones.
_RANKING: dict[str, Callable[[NDArray[np.bool_], NDArray[np.float32]], float]] = {
    "roc_auc": roc_auc,
    "average_precision": average_precision,
}


class Tally(Protocol):
    """What is known of outputs so far; where it can be, a few counts, not the outputs."""

    def add(self, outputs: Tensor, labels: NDArray[np.int64]) -> None:
        """Takes in some nodes.

        Args:
            outputs: float32, shape (n, num_classes), on any device.
            labels: int64, shape (n,), all >= 0.
        """

    def quality(self) -> float:
        """Returns the quality of all that was taken in, at least one node."""


def new_tally(metric: Metric, num_classes: int) -> Tally:
    """Returns an empty tally for outputs of `num_classes` columns."""
    return _TALLIES[metric.name](metric, num_classes)


def check_defined(metric: Metric, labels: NDArray[np.int64], where: str) -> None:
    """Does nothing where `metric` is defined on nodes of these `labels`.

    Raises:
        GraphError: They are all of one class, which nothing can be ranked above; the message calls the nodes `where`.
    """
    if metric.name in _RANKING and len(found := np.unique(labels)) < 2:
        raise GraphError(
            f"{metric.label} must have {where} nodes of two classes or more, got {len(labels)} of class {found[0]} "
            "alone; change the split, or choose --metric macro_f1"
        )


class _Right:
    """The share of nodes whose class has the largest output; micro-F1 of single-label classes is the same."""

    def __init__(self, metric: Metric, num_classes: int) -> None:
        self._right = self._count = 0

    def add(self, outputs: Tensor, labels: NDArray[np.int64]) -> None:
        self._right += int((_predicted(outputs) == labels).sum())
        self._count += len(labels)

    def quality(self) -> float:
        return self._right / self._count


class _MacroF1:
    """The mean of the classes' F1, of those classes that a node has: others have none to be found."""

    def __init__(self, metric: Metric, num_classes: int) -> None:
        self._right, self._predicted, self._actual = np.zeros((3, num_classes), dtype=np.int64)

    def add(self, outputs: Tensor, labels: NDArray[np.int64]) -> None:
        predicted, classes = _predicted(outputs), len(self._actual)
        self._right += np.bincount(labels[predicted == labels], minlength=classes)
        self._predicted += np.bincount(predicted, minlength=classes)
        self._actual += np.bincount(labels, minlength=classes)

    def quality(self) -> float:
        found = self._actual > 0
        return float((2 * self._right[found] / (self._predicted + self._actual)[found]).mean())


class _Ranking:
    """ROC AUC or average precision of class 1 of two; of more, the mean over the classes, each against the others.

    Classes that no node has are left out of the mean.
    """

    def __init__(self, metric: Metric, num_classes: int) -> None:
        self._of, self._classes = _RANKING[metric.name], num_classes
        self._scores: list[NDArray[np.float32]] = []
        self._labels: list[NDArray[np.int64]] = []

    def add(self, outputs: Tensor, labels: NDArray[np.int64]) -> None:
        scores = torch.log_softmax(outputs, dim=1)  # orders as probabilities do, with fewer ties
        self._scores.append((scores[:, 1:] if self._classes == 2 else scores).cpu().numpy())
        self._labels.append(labels)

    def quality(self) -> float:
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        first = self._classes - scores.shape[1]
        found = [one for one in np.unique(labels) if one >= first]
        return float(np.mean([self._of(labels == one, scores[:, one - first]) for one in found]))


def _predicted(outputs: Tensor) -> NDArray[np.int64]:
    """Returns the class of the largest output of each node, int64, shape (n,)."""
    predicted: NDArray[np.int64] = outputs.argmax(dim=1).cpu().numpy()
    return predicted


_TALLIES: dict[MetricName, Callable[[Metric, int], Tally]] = {
    "accuracy": _Right,
    "micro_f1": _Right,
    "macro_f1": _MacroF1,
    "roc_auc": _Ranking,
    "average_precision": _Ranking,
}
