"""`references`: the qualities of predictions without a network, beside which a trained one is judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError
from a3gnn.evaluation.evaluate import labeled, metric_of, tested, validated
from a3gnn.evaluation.event_evaluator import validated_events
from a3gnn.evaluation.event_quality import EVENTS, event_heuristics
from a3gnn.evaluation.heuristics import label_propagation
from a3gnn.evaluation.link_evaluator import Part, block_bytes, judged_links
from a3gnn.evaluation.link_quality import heuristic_qualities
from a3gnn.evaluation.row_models import fit, quality_on_test
from a3gnn.evaluation.share import LeftOutError, Share
from a3gnn.evaluation.tally import new_tally
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import is_labeled
from a3gnn.launch import QUICK
from a3gnn.metric import ROW_MODELS, Metric, RowModel, Target
from a3gnn.task import Task
from a3gnn.units import format_seconds

#: Most edges times columns of label propagation: a few seconds on one core. Guess.
_MOST_PROPAGATED = 5e7
#: Most links times batches of scores by earlier links, about a minute, and bytes of each link. Measured.
_MOST_REPEATED, _REPEATED_BYTES = 1e8, 64.0
#: Most train edges times columns of node offsets, 13 s at 5e5 edges of 10 columns, and bytes of each. Measured.
_MOST_OFFSETS, _OFFSET_BYTES = 5e6, 32.0
#: Share of the seconds of all models that the first steps of each may take: a quarter for all four.
_RATES_SHARE = 1 / 16
#: Whether models of rows are trained; quick runs of tests leave them out.
_TRAINED = not QUICK


def references(part: Part, graph: Graph, task: Task, budget_bytes: int) -> dict[str, float]:
    """Returns the qualities of predictions without a network on the examples that validation or a test judges, by name.

    For nodes it is label propagation; for links, popularity and item neighbors, which know the other links of train and
    validation, or with times popularity and repetition, which know earlier ones; for values of edges, a constant and
    node offsets. What would take long is left out, and so is what exceeds `budget_bytes`, and label propagation where
    the graph is read by parts.
    """
    if graph.links is None:
        return _propagated(part, graph, task, budget_bytes)
    if graph.links.valued:
        cells = float(len(graph.train_ids)) * max(graph.num_classes, 1)
        if cells > _MOST_OFFSETS or _OFFSET_BYTES * cells > budget_bytes:
            return {}
        ids = validated(graph, task) if part == "validation" else tested(graph, task)
        return edge_heuristics(graph, metric_of(task, graph), ids)
    block = block_bytes(budget_bytes)
    if graph.links.ranks is not None:
        assert graph.types is not None
        assert graph.types.times is not None
        ids = validated_events(graph.val_ids) if part == "validation" else graph.test_ids
        known = float(graph.links.pairs.shape[1])
        if known * len(ids) / EVENTS > _MOST_REPEATED or _REPEATED_BYTES * known > budget_bytes:
            return {}
        return event_heuristics(task.metric, graph.links, ids, graph.types.times.distinct, seed=task.seed, block=block)
    judged = judged_links(part, graph, task)
    return heuristic_qualities(task.metric, graph.links, *judged, seed=task.seed, block=block)


def row_references(
    graph: Graph, task: Task, budget_bytes: int, seconds: float, notify: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Returns the `validation` and `test` qualities of models of nodes without a graph network, by name.

    The first steps of each tell what it takes to its last step. Then they are trained from cheap to dear, each within
    half of the remaining seconds, and the last within all of them. One that does not end is left out. None is trained
    for links, and if graph servers have the graph.

    Args:
        graph: The graph.
        task: Its metric judges them, and its seed decides every random choice.
        budget_bytes: Memory of each.
        seconds: Seconds of all.
        notify: Called with a line for each.
    """
    found: dict[str, dict[str, float]] = {}
    if not _TRAINED or graph.links is not None or graph.is_parted:
        return found
    end, metric = monotonic() + seconds, metric_of(task, graph)
    whole_s = {name: _whole_s(name, graph, task, _Rate(seconds * _RATES_SHARE, budget_bytes)) for name in ROW_MODELS}
    for place, name in enumerate(sorted(ROW_MODELS, key=whole_s.__getitem__)):
        begin = monotonic()
        share = Share(max(end - begin, 0.0) / (2 if place + 1 < len(ROW_MODELS) else 1), budget_bytes)
        try:
            fitted = fit(name, graph, task, share)
            found[name] = {"validation": fitted.validation, "test": quality_on_test(fitted, graph, task, share)}
        except LeftOutError as reason:
            notify(f"without a graph network, {name} is left out: {reason}")
            continue
        shown, took = metric.show(fitted.validation), format_seconds(monotonic() - begin)
        notify(f"without a graph network, {name} has validation {metric.label} {shown} (took {took})")
    return {name: found[name] for name in ROW_MODELS if name in found}


class _Rate(Share):
    """A share that ends a model's first steps as soon as they tell its seconds."""

    def need_seconds(self, least: float, most: float) -> None:
        """Raises `most` as a `_ToldError`."""
        raise _ToldError(most)


class _ToldError(A3GNNError):
    """The seconds of a model to its last step, the only argument."""


def _whole_s(name: RowModel, graph: Graph, task: Task, rate: _Rate) -> float:
    """Returns the seconds of the model `name` to its last step, by its first ones; infinite if these exceed `rate`."""
    try:
        fit(name, graph, task, rate)
    except _ToldError as told:
        return float(told.args[0])
    except LeftOutError:
        return math.inf
    return 0.0


def _propagated(part: Part, graph: Graph, task: Task, budget_bytes: int) -> dict[str, float]:
    edges, columns = graph.num_edges, graph.num_classes + 1
    work, needed = float(edges) * columns, 4.0 * (edges + 4 * graph.num_nodes * columns)
    if not isinstance(graph.indices, np.ndarray) or work > _MOST_PROPAGATED or needed > budget_bytes:
        return {}
    ids = labeled(graph, graph.train_ids, "train")
    judged = validated(graph, task) if part == "validation" else tested(graph, task)
    labels = graph.labels[ids]
    known: NDArray[np.float32] = labels.reshape(len(ids), -1).astype(np.float32)
    if graph.target == "classes":
        known = np.eye(graph.num_classes, dtype=np.float32)[labels]
    means = label_propagation(graph.indptr, graph.indices, known, ids)[judged]
    found = new_tally(metric_of(task, graph), graph.target, graph.num_classes)
    found.add(torch.from_numpy(means - 0.5 if graph.target == "labels" else means), graph.labels[judged])
    return {"label propagation": found.quality()}


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
