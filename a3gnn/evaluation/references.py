"""`references`: the qualities of predictions without a network, beside which a trained one is judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError
from a3gnn.evaluation.edge_heuristics import edge_heuristics
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
from a3gnn.launch import QUICK
from a3gnn.metric import ROW_MODELS, RowModel
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
