"""`Tally`: computes a metric from a model's outputs, chunk by chunk.

It doesn't use scikit-learn, whose metrics cost each training process 46 MiB and 2.5 seconds of import; a trial measures
the whole process. The tests compare the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import GraphError
from a3gnn.graphs.labels import target_of
from a3gnn.metric import Metric, Target
from a3gnn.option_names import option
from a3gnn.ranks.exchange import summed
from a3gnn.ranks.peers import Ranks


class Tally(Protocol):
    """Accumulates outputs for a metric, as a few counts where possible."""

    def add(self, outputs: Tensor, labels: NDArray[Any]) -> None:
        """Adds some nodes.

        Args:
            outputs: float32, shape (n, num_classes), on any device.
            labels: The nodes' labels, of one kind (`a3gnn.graphs.labels`), none missing.
        """

    def quality(self) -> float:
        """Returns the quality of all added nodes, at least one."""

    def join(self, ranks: Ranks) -> None:
        """Adds the other ranks' nodes to the tally of rank 0; all ranks call it."""


def new_tally(metric: Metric, target: Target, num_classes: int) -> Tally:
    """Returns an empty tally for outputs of `num_classes` columns."""
    return _TALLIES[target, metric.name](metric, num_classes)


def check_defined(metric: str, labels: NDArray[Any], where: str) -> None:
    """Checks that a metric is defined on nodes with these labels.

    Args:
        metric: The metric's name.
        labels: The nodes' labels, at least one.
        where: Name of the nodes in error messages.

    Raises:
        GraphError: The metric is for another kind of labels, or it is a ranking metric and no class or label has both
            positive and negative nodes.
    """
    target = target_of(labels)
    if (target, metric) not in _TALLIES:
        known = [name for kind, name in _TALLIES if kind == target]
        raise GraphError(
            f"the metric must be one of {', '.join(known)} if {target} are predicted, got {metric}; auto chooses one"
        )
    if metric == "r2" and (labels == labels[0]).all():
        raise GraphError(
            f"r2 needs {where} examples of different values, got {labels[0]:g} only; change the split, or choose "
            f"{option('metric', 'mae')}"
        )
    if metric not in RANKING:
        return
    if target == "classes" and len(found := np.unique(labels)) < 2:
        raise GraphError(
            f"{metric} needs {where} nodes of at least two classes, got {len(labels)} of class {found[0]} only; "
            f"change the split, or choose {option('metric', 'macro_f1')}"
        )
    if target == "labels" and not _both(labels == 1).any():
        raise GraphError(
            f"{metric} needs a label that some {where} nodes have and others don't, got none among {len(labels)} "
            f"nodes; change the split, or choose {option('metric', 'micro_f1')}"
        )


class _Right:
    """The share of correct nodes, which for classes equals micro-F1.

    With classes, a node is correct if its class has the largest output. With several labels, a node is correct if
    exactly its labels have positive outputs.
    """

    def __init__(self, metric: Metric, num_classes: int) -> None:
        self._right = self._count = 0

    def add(self, outputs: Tensor, labels: NDArray[Any]) -> None:
        if labels.ndim == 2:
            right = ((outputs > 0).cpu().numpy() == (labels == 1)).all(axis=1)
        else:
            right = _predicted(outputs) == labels
        self._right += int(right.sum())
        self._count += len(labels)

    def quality(self) -> float:
        return self._right / self._count

    def join(self, ranks: Ranks) -> None:
        self._right, self._count = summed(ranks, np.array([self._right, self._count])).tolist()


class _F1:
    """F1 from counts: macro-F1 is the mean over classes or labels that occur among the nodes; micro-F1 pools all."""

    def __init__(self, metric: Metric, num_classes: int) -> None:
        self._micro = metric.name == "micro_f1"
        self._right, self._predicted, self._actual = np.zeros((3, num_classes), dtype=np.int64)

    def add(self, outputs: Tensor, labels: NDArray[Any]) -> None:
        if labels.ndim == 2:
            predicted, actual = (outputs > 0).cpu().numpy(), labels == 1
            right, chosen, there = (one.sum(axis=0) for one in (predicted & actual, predicted, actual))
        else:
            classes, given = len(self._actual), _predicted(outputs)
            hits = labels[given == labels]
            right, chosen, there = (np.bincount(one, minlength=classes) for one in (hits, given, labels))
        self._right += right
        self._predicted += chosen
        self._actual += there

    def quality(self) -> float:
        right, both = 2 * self._right, self._predicted + self._actual
        if self._micro:
            return float(right.sum() / max(both.sum(), 1))
        found = self._actual > 0
        return float((right[found] / both[found]).mean()) if found.any() else 0.0

    def join(self, ranks: Ranks) -> None:
        counts = np.stack([self._right, self._predicted, self._actual])
        self._right, self._predicted, self._actual = summed(ranks, counts)


class _Ranking:
    """ROC AUC or average precision.

    With two classes, it is computed for class 1. With more classes, it is the mean over classes, each against the
    others; with labels, the mean over labels. The mean leaves out classes and labels that no node or every node has.
    """

    def __init__(self, metric: Metric, num_classes: int) -> None:
        self._of = RANKING[metric.name]
        self._scores: list[NDArray[np.float32]] = []
        self._positive: list[NDArray[np.bool_]] = []

    def add(self, outputs: Tensor, labels: NDArray[Any]) -> None:
        if labels.ndim == 2:
            scores, positive = outputs, labels == 1
        else:
            scores = torch.log_softmax(outputs, dim=1)  # same order as probabilities, with fewer ties
            positive = labels[:, None] == np.arange(scores.shape[1])
            if scores.shape[1] == 2:
                scores, positive = scores[:, 1:], positive[:, 1:]
        self._scores.append(scores.cpu().numpy())
        self._positive.append(positive)

    def quality(self) -> float:
        scores, positive = np.concatenate(self._scores), np.concatenate(self._positive)
        columns = np.flatnonzero(_both(positive))
        return float(np.mean([self._of(positive[:, one], scores[:, one]) for one in columns]))

    def join(self, ranks: Ranks) -> None:
        self._scores = ranks.gathered(np.concatenate(self._scores))
        self._positive = ranks.gathered(np.concatenate(self._positive))


class _AbsoluteError:
    """The mean absolute error as a quality: 1 minus the error in units of the metric's scale."""

    def __init__(self, metric: Metric, num_classes: int) -> None:
        assert metric.scale is not None, "an error has one"
        self._scale, self._sum, self._count = metric.scale, 0.0, 0

    def add(self, outputs: Tensor, labels: NDArray[Any]) -> None:
        self._sum += float(np.abs(outputs[:, 0].cpu().numpy().astype(np.float64) - labels).sum())
        self._count += len(labels)

    def quality(self) -> float:
        return 1 - self._sum / self._count / self._scale

    def join(self, ranks: Ranks) -> None:
        self._sum, count = summed(ranks, np.array([self._sum, self._count])).tolist()
        self._count = int(count)


class _SquaredError:
    """The root of the mean squared error as a quality, as for `_AbsoluteError`; or the share of explained variance."""

    def __init__(self, metric: Metric, num_classes: int) -> None:
        self._scale, self._sums = metric.scale, np.zeros(4)

    def add(self, outputs: Tensor, labels: NDArray[Any]) -> None:
        values = labels.astype(np.float64)
        errors = outputs[:, 0].cpu().numpy() - values
        self._sums += len(labels), (errors**2).sum(), values.sum(), (values**2).sum()

    def quality(self) -> float:
        count, errors, total, squares = self._sums.tolist()
        if self._scale is None:
            return 1 - errors / (squares - total**2 / count)
        return 1 - math.sqrt(errors / count) / self._scale

    def join(self, ranks: Ranks) -> None:
        self._sums = summed(ranks, self._sums)


def _predicted(outputs: Tensor) -> NDArray[np.int64]:
    """Returns the class with each node's largest output, int64, shape (n,)."""
    predicted: NDArray[np.int64] = outputs.argmax(dim=1).cpu().numpy()
    return predicted


def _both(positive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns whether each column contains both True and False, bool, shape (columns,)."""
    return np.asarray(positive.any(axis=0) & ~positive.all(axis=0))


def roc_auc(positive: NDArray[np.bool_], scores: NDArray[np.float32]) -> float:
    """Returns the probability that a positive node scores higher than a negative one, ties counting half.

    Args:
        positive: Whether each node is positive, shape (n,); contains both values.
        scores: The nodes' scores, same shape.
    """
    order = np.argsort(scores, kind="stable")
    starts, sizes = _ties(scores[order])
    ranks = np.repeat(starts + (sizes + 1) / 2, sizes)  # from 1; ties share their mean rank
    above = np.count_nonzero(positive)
    below = len(positive) - above
    return float((ranks[positive[order]].sum() - above * (above + 1) / 2) / (above * below))


def average_precision(positive: NDArray[np.bool_], scores: NDArray[np.float32]) -> float:
    """Returns the sum over thresholds of precision times the recall gained there, without interpolation.

    Args:
        positive: Whether each node is positive, shape (n,); at least one is.
        scores: The nodes' scores, same shape.
    """
    order = np.argsort(-scores, kind="stable")
    starts, sizes = _ties(scores[order])
    ends = starts + sizes
    found = np.cumsum(positive[order])[ends - 1]
    return float((found / ends * np.diff(found, prepend=0)).sum() / found[-1])


def _ties(ordered: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the start and the length of each run of equal values in `ordered`, int64."""
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return starts, np.diff(starts, append=len(ordered))


#: The metrics that rank positive nodes above negative ones.
RANKING: dict[str, Callable[[NDArray[np.bool_], NDArray[np.float32]], float]] = {
    "roc_auc": roc_auc,
    "average_precision": average_precision,
}

_TALLIES: dict[tuple[str, str], Callable[[Metric, int], Tally]] = {
    ("classes", "accuracy"): _Right,
    ("classes", "micro_f1"): _Right,
    ("classes", "macro_f1"): _F1,
    ("classes", "roc_auc"): _Ranking,
    ("classes", "average_precision"): _Ranking,
    ("labels", "accuracy"): _Right,
    ("labels", "micro_f1"): _F1,
    ("labels", "macro_f1"): _F1,
    ("labels", "roc_auc"): _Ranking,
    ("labels", "average_precision"): _Ranking,
    ("values", "mae"): _AbsoluteError,
    ("values", "rmse"): _SquaredError,
    ("values", "r2"): _SquaredError,
}
