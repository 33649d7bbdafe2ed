"""`with_metric`: a task with the metric that suits a graph's labels, or the one that was asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import cast

import numpy as np

from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.majority import majority_share
from a3gnn.metric import AUTO, Metric, MetricName
from a3gnn.task import Task
from a3gnn.training.evaluate import tested, validated

#: Share of one class of the validation nodes above which accuracy tells little: a model that always says that class is
#: right more often than most that learnt something. Guess: two classes at 60 and 40 per cent.
MOST_IN_ONE_CLASS = 0.6


def with_metric(task: Task, metric: str | None, graph: Graph, notify: Callable[[str], None]) -> Task:
    """Returns the task with a metric that is defined on the graph's nodes.

    Args:
        task: As it was given.
        metric: A metric's name; "auto" to choose by the labels of `graph`, which `notify` is told; None for the task's.
        graph: What is trained on.
        notify: Takes a line for people.

    Raises:
        GraphError: No validation or no test node has a label, or the metric is not defined on those that have.
    """
    if metric == AUTO:
        chosen, why = suiting(graph)
        metric = chosen.name
        notify(why)
    if metric is not None:
        task = dataclasses.replace(task, metric=cast(MetricName, metric))
    validated(graph, task)
    tested(graph, task)
    return task


def suiting(graph: GraphArrays) -> tuple[Metric, str]:
    """Returns the metric that suits the labels of `graph`, and a line that says why.

    Accuracy, unless more than `MOST_IN_ONE_CLASS` of the validation nodes are of one class: then ROC AUC where there
    are two classes, which validation and test nodes both have, and macro-F1 otherwise.
    """
    share = majority_share(graph)
    if share <= MOST_IN_ONE_CLASS or graph.num_classes < 2:
        metric = Metric("accuracy")
        return metric, f"metric: {metric.label}, for the most frequent class has {share:.0%} of the validation nodes"
    ranked = graph.num_classes == 2 and all(
        len(np.unique(labels[labels >= 0])) == 2
        for labels in (graph.labels[graph.val_ids], graph.labels[graph.test_ids])
    )
    metric = Metric("roc_auc" if ranked else "macro_f1")
    return metric, (
        f"metric: {metric.label}, for {share:.0%} of the validation nodes are of one class, and above "
        f"{MOST_IN_ONE_CLASS:.0%} accuracy tells little; --metric accuracy takes that all the same"
    )
