"""The lines that explain how a user's own model is evaluated, and which knobs the space leaves out for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from a3gnn.evaluation.own_evaluator import EvaluationPlans
from a3gnn.graphs.graph import Graph
from a3gnn.search_values import gains_by_bfloat16, has_a_small_table
from a3gnn.setting import Setting
from a3gnn.task import OwnModel, Task
from a3gnn.units import count


def model_lines(setting: Setting, graph: Graph, evaluation_bytes: int) -> Iterator[str]:
    """Yields lines about a user's own model; nothing for a built-in one.

    Args:
        setting: The setting whose task has the model.
        graph: The graph to train on.
        evaluation_bytes: Memory that one evaluation pass may take.
    """
    task, own = setting.task, setting.task.own
    if own is None:
        return
    text = EvaluationPlans.of(graph, task, evaluation_bytes).text
    yield f"{task.model}: {count(own.cost.parameters, 'weight')}; {setting.metric.label} is computed from {text}"
    if not own.repeats:
        yield (
            "mini-batches that were trained twice gave different weights: configurations that sample alike do not "
            "share learning curves, each trains its own"
        )
    yield from _left_out(setting, own)


def _left_out(setting: Setting, own: OwnModel) -> Iterator[str]:
    """Yields why knobs are left out that the space would contain for a built-in model."""
    built_in = dataclasses.replace(setting, task=Task(fanouts=setting.task.fanouts))
    if has_a_small_table(built_in) and not has_a_small_table(setting):
        yield (
            'input_aggregation is left out: full needs a model that declares aggregates = "mean" and takes adjs, this '
            f"one takes {own.takes} and declares {own.aggregates!r}"
        )
    if gains_by_bfloat16(built_in) and not gains_by_bfloat16(setting):
        yield "compute_dtype is left out: this model takes adjs, and torch has no such products in bfloat16 on the CPU"
