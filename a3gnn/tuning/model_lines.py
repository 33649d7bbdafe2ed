"""The lines that say how a model of the user's is evaluated, and which knobs leave the space for it."""

from __future__ import annotations

from collections.abc import Iterator

from a3gnn.graphs.graph import Graph
from a3gnn.search_values import multiplies_in_bfloat16
from a3gnn.setting import Setting
from a3gnn.training.evaluate import validated
from a3gnn.training.own.evaluation_plan import EvaluationPlan


def model_lines(setting: Setting, graph: Graph, evaluation_bytes: int) -> Iterator[str]:
    """Yields what is particular to the setting's model; nothing for a built-in one.

    Args:
        setting: Its task is described.
        graph: What is trained on.
        evaluation_bytes: What a pass of evaluation may take.
    """
    task, own = setting.task, setting.task.own
    if own is None:
        return
    plan = EvaluationPlan.of(graph, task, validated(graph, task), evaluation_bytes)
    yield f"{task.model}: {own.cost.parameters:,} weights; {setting.metric.label} is computed from {plan.text}"
    if not own.repeats:
        yield (
            "mini-batches that were trained twice gave different weights: configurations that sample alike do not "
            "share learning curves, each trains its own"
        )
    if not own.reads_a_table:
        yield (
            'input_aggregation is left out: full needs a model that declares aggregates = "mean" and takes adjs, this '
            f"one takes {own.takes} and declares {own.aggregates!r}"
        )
    if not multiplies_in_bfloat16(setting):
        yield "compute_dtype is left out: this model takes adjs, and torch has no such products in bfloat16 on the CPU"
