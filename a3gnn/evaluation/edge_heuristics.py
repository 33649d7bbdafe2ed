"""Predictions of values of edges without a model, from train edges alone: what a trained model must beat."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.evaluation.tally import new_tally
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import is_labeled
from a3gnn.metric import Metric, Target

#: Shrinkages of offsets, in edges of an average node; validation edges choose one.
_SHRINKAGES = (0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 100.0)
#: Sweeps over both ends' offsets: further ones change the fourth digit.
_SWEEPS = 8
#: Least probability of a class, of which the logarithm is taken.
_LEAST = 1e-9


class Offsets(NamedTuple):
    """A mean and an offset of each node, whose sum predicts columns of edges (Koren 2010, section 2.1).

    Attributes:
        mean: float64, shape (columns,).
        ends: Offsets of sources and of targets, float64, shape (num_nodes, columns) each.
    """

    mean: NDArray[np.float64]
    ends: tuple[NDArray[np.float64], NDArray[np.float64]]

    @classmethod
    def fitted(
        cls, pairs: NDArray[np.integer], columns: NDArray[np.float64], num_nodes: tuple[int, int], shrinkage: float
    ) -> Self:
        """Returns the offsets with the least squared error, plus `shrinkage` times their squares.

        Args:
            pairs: Sources and targets, shape (2, num_edges).
            columns: Of these edges, shape (num_edges, columns).
            num_nodes: Sources and targets.
            shrinkage: Above 0.
        """
        mean, width = columns.mean(axis=0), columns.shape[1]
        ends = [np.zeros((size, width)) for size in num_nodes]
        counts = [np.bincount(ids, minlength=size) for ids, size in zip(pairs, num_nodes, strict=True)]
        for end in (1, 0) * _SWEEPS:
            rest = columns - mean - ends[1 - end][pairs[1 - end]]
            for column in range(width):
                sums = np.bincount(pairs[end], weights=rest[:, column], minlength=num_nodes[end])
                ends[end][:, column] = sums / (counts[end] + shrinkage)
        return cls(mean, (ends[0], ends[1]))

    def __call__(self, pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """Returns the predicted columns of `pairs`, float64, shape (num_pairs, columns)."""
        found: NDArray[np.float64] = self.mean + self.ends[0][pairs[0]] + self.ends[1][pairs[1]]
        return found


def edge_heuristics(graph: Graph, metric: Metric, ids: NDArray[np.int32]) -> dict[str, float]:
    """Returns the qualities on the labeled edges `ids` of `graph` of predictions from its train edges, by name.

    One predicts the same for each edge. The other adds an offset of each node, to the value or to the share of each
    class or label; its shrinkage is the best one on validation edges.
    """
    links, labels, target = graph.links, graph.labels, graph.target
    assert links is not None, "edges are predicted"
    columns = _columns(labels[graph.train_ids], target, graph.num_classes)
    train = links.pairs[:, graph.train_ids]

    def judged(predicted: NDArray[np.float64], ids: NDArray[np.int32]) -> float:
        found = new_tally(metric, target, graph.num_classes)
        found.add(_outputs(predicted, target), labels[ids])
        return found.quality()

    val = graph.val_ids[is_labeled(labels[graph.val_ids])]
    constant = np.median(columns, axis=0) if metric.name == "mae" else columns.mean(axis=0)
    name = "majority" if target != "values" else "median" if metric.name == "mae" else "mean"
    fits = [Offsets.fitted(train, columns, links.num_nodes, one) for one in _SHRINKAGES]
    best = max(fits, key=lambda fit: judged(fit(links.pairs[:, val]), val))
    found = {name: judged(np.broadcast_to(constant, (len(ids), columns.shape[1])), ids)}
    return found | {"node offsets": judged(best(links.pairs[:, ids]), ids)}


def _columns(labels: NDArray[Any], target: Target, outputs: int) -> NDArray[np.float64]:
    """Returns what offsets predict of `labels`, float64, shape (n, outputs): values, or whether a class or label is."""
    if target == "classes":
        found: NDArray[np.float64] = (labels[:, None] == np.arange(outputs)).astype(np.float64)
        return found
    return labels.reshape(len(labels), -1).astype(np.float64)


def _outputs(predicted: NDArray[np.float64], target: Target) -> torch.Tensor:
    """Returns predicted columns as a model's outputs, float32."""
    if target == "classes":
        predicted = np.log(np.maximum(predicted, _LEAST))
    return torch.tensor(predicted - 0.5 if target == "labels" else predicted, dtype=torch.float32)
