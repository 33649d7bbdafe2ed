"""`with_metric`: sets a task's metric, either the user's choice or one that suits the graph's labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import ConfigError, GraphError
from a3gnn.evaluation.evaluate import metric_of, tested, validated
from a3gnn.evaluation.event_evaluator import for_events
from a3gnn.evaluation.link_evaluator import check_link_metric, check_links, usual_metric
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.edge_values import num_columns
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import is_labeled
from a3gnn.graphs.links import value_in
from a3gnn.graphs.schema import Schema
from a3gnn.metric import AUTO, METRIC_LABELS, MetricName
from a3gnn.models.loss import check_loss
from a3gnn.notify import detail
from a3gnn.option_names import option
from a3gnn.task import EMBEDDING, MODELS, SHIPPED, Task, names_factory

#: Share of the largest class of the validation nodes above which accuracy is uninformative: always predicting that
#: class is right more often than most trained models. docs/reference/metrics.md has the rule.
MOST_IN_ONE_CLASS = 0.6


def with_metric(task: Task, metric: str | None, graph: Graph, notify: Callable[[str], None]) -> Task:
    """Returns the task with a metric defined on the graph's nodes, and a model for its types and values of edges.

    Args:
        task: The task whose metric is set.
        metric: A metric's name; "auto" chooses by the labels of `graph`; None keeps the task's metric.
        graph: The graph to train on.
        notify: Called with a line that explains an automatic choice.

    Raises:
        GraphError: No validation or no test node has a label, or the metric is not defined on the labels.
        ConfigError: The task's loss doesn't fit the labels, or its model not the types.
    """
    task = _for_types(task, graph)
    if metric == AUTO:
        metric, why = suiting(graph)
        notify(detail(why) if metric == "accuracy" else why)
    if metric is not None:
        task = dataclasses.replace(task, metric=cast(MetricName, metric))
    if graph.target == "links":
        check_link_metric(task.metric)
        check_links(graph)
        _notify_relations(task, graph, notify)
        check_loss(graph, task)
        return for_events(graph, task, notify)
    validated(graph, task)
    tested(graph, task)
    metric_of(task, graph)
    check_loss(graph, task)
    return with_edges(task, graph, notify)


def _notify_relations(task: Task, graph: Graph, notify: Callable[[str], None]) -> None:
    """Calls `notify` with a line where a pair has the same score in each of several relations."""
    count = 0 if graph.links is None else len(graph.links.relations)
    if count > 1 and task.decoder in ("dot", "mlp"):
        notify(
            f"{task.decoder} gives a pair the same score in each of the {count} relations; "
            f"{option('decoder', 'rotate')} tells them apart, best with {option('model', EMBEDDING)} where nodes have "
            "no features"
        )


def with_edges(task: Task, graph: GraphArrays, notify: Callable[[str], None]) -> Task:
    """Returns a built-in model's task with the values of the graph's edges that it can read.

    Args:
        task: A task, for any graph.
        graph: The graph to train on.
        notify: Called with a line on the values that are read, and on those that are not.

    Raises:
        GraphError: A weight is below 0, and the model is gcn.
    """
    values = graph.edge_values.get(str(task.edge_value))
    columns = 0 if task.is_own or values is None else num_columns(values)
    if task.model == "gcn" and values is not None and values.size and (least := float(values.min())) < 0:
        raise GraphError(
            f"{graph.name}: edge_weight must be >= 0 for gcn, which divides by square roots of its sums, got "
            f"{least:g}; delete edge_weight, or choose another model"
        )
    found = dataclasses.replace(task, edge_dim=columns)
    if not task.is_own:
        notify_edges(found, graph, notify)
    return found


def notify_edges(task: Task, graph: GraphArrays, notify: Callable[[str], None]) -> None:
    """Calls `notify` with a line on the values of edges that the model reads, and on those that it does not."""
    name = "forward" if names_factory(task.model) else task.model
    if task.edge_values:
        notify(f"{name} takes {' and '.join(task.edge_values)} of the graph's edges")
    target = "" if graph.types is None else value_in(graph.types.target)[1]
    if left := [one for one in graph.edge_values if one not in (*task.edge_values, target)]:
        notify(f"{' and '.join(left)} of the graph's edges {'is' if len(left) == 1 else 'are'} not read by {name}")


def _for_types(task: Task, graph: Graph) -> Task:
    """Returns the task with a model that takes the types of `graph`: of a graph with types, rsage in place of sage."""
    if graph.types is not None and graph.links is None and task.model == EMBEDDING:
        raise ConfigError(f"the model {EMBEDDING} predicts links alone; {option('target')} names a relation to predict")
    if graph.types is None and task.model in SHIPPED:
        raise ConfigError(
            f"the model must be one of {', '.join(MODELS)} or your own for a graph without node types, got {task.model}"
        )
    if graph.types is None:
        return task
    if not task.is_own:
        if task.model != Task().model:
            raise ConfigError(
                f"the model must be {' or '.join(SHIPPED if graph.links else SHIPPED[:1])}, or your own, for a graph "
                f"with node types, got {task.model}; docs/howto/node_types.md shows how to write one"
            )
        task = task.with_model(SHIPPED[0])
    if task.model == SHIPPED[0]:
        _check_names(graph.types.schema)
    if graph.links is not None and graph.links.valued:
        return _for_values(task)
    return task


def _for_values(task: Task) -> Task:
    """Returns the task with the decoder of values of edges, whose own edges are hidden.

    Raises:
        ConfigError: It has another one, or negatives.
    """
    plain = Task()
    if task.decoder not in (plain.decoder, "mlp"):
        raise ConfigError(f"decoder must be mlp, or left out, to predict values of edges, got {task.decoder}")
    if task.negatives != plain.negatives:
        raise ConfigError(f"negatives must be left out to predict values of edges, got {task.negatives}")
    return dataclasses.replace(task, decoder="mlp", own_links="hidden")


def _check_names(schema: Schema) -> None:
    """Checks that PyG's `HeteroConv`, of which rsage consists, keeps the names of `schema` apart.

    Raises:
        GraphError: It does not.
    """
    names = {part for relation in schema.relations for part in relation} | {*schema.types}
    if wrong := [one for one in names if "#" in one or "___" in one or one == "training"]:
        raise GraphError(
            f"types and relations must have names without # and ___, and not training, for {SHIPPED[0]}, because PyG's "
            f"HeteroConv confuses others; got {min(wrong)}; rename it"
        )


def suiting(graph: GraphArrays) -> tuple[MetricName, str]:
    """Returns the name of the metric that suits the labels of `graph`, and a line with the reason.

    It is MAE for values. For classes it is accuracy, unless more than `MOST_IN_ONE_CLASS` of the validation nodes have
    the same class. Then it is ROC AUC if there are two classes and both occur among validation and test nodes, and
    macro-F1 otherwise. For several labels it is micro-F1, unless more than that share of the label values are equal.
    Then it is ROC AUC or macro-F1, by the same rule.
    """
    if graph.links is not None and graph.target == "links":
        return usual_metric(graph.links)
    if graph.target == "values":
        return "mae", f"metric: {METRIC_LABELS['mae']}, because the labels are values"
    share = majority_share(graph)
    usual: MetricName = "accuracy" if graph.target == "classes" else "micro_f1"
    rows = "nodes" if graph.links is None else "edges"
    what = f"of the validation {rows} are in one class" if usual == "accuracy" else "of the labels are equal, 0 or 1"
    if graph.num_classes < 2:
        return (
            usual,
            f"metric: {METRIC_LABELS[usual]}, which is 100% for any model, because all labels are of one class",
        )
    if share <= MOST_IN_ONE_CLASS:
        return usual, f"metric: {METRIC_LABELS[usual]}, because at most {share:.0%} {what}"
    ranked = all(_is_ranked(graph, ids) for ids in (graph.val_ids, graph.test_ids))
    name: MetricName = "roc_auc" if ranked else "macro_f1"
    return name, (
        f"metric: {METRIC_LABELS[name]}, because {share:.0%} {what}; {METRIC_LABELS[usual]} means little above "
        f"{MOST_IN_ONE_CLASS:.0%}, but {option('metric', usual)} chooses it"
    )


def majority_share(graph: GraphArrays) -> float:
    """Returns the share of the most frequent class, or label value, of the validation nodes; 0 without labels."""
    labels = graph.labels[graph.val_ids]
    counts = np.bincount(labels[labels >= 0])  # with several labels per node: all zeros and all ones
    return float(counts.max() / counts.sum()) if len(counts) else 0.0


def _is_ranked(graph: GraphArrays, ids: NDArray[np.int32]) -> bool:
    """Returns whether ROC AUC is defined on `ids`: both of two classes occur, or some nodes lack a label of others."""
    labels = graph.labels[ids]
    found = labels[is_labeled(labels)]
    if found.ndim == 2:
        return bool((found != found[:1]).any())
    return graph.num_classes == 2 and len(np.unique(found)) == 2
