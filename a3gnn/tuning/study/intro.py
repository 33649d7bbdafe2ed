"""The lines that a study begins with: the machine, the graph, and a user's own model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.hardware import Hardware
from a3gnn.search_values import gains_by_bfloat16, has_a_small_table
from a3gnn.setting import Setting
from a3gnn.task import OwnModel, Task
from a3gnn.units import count, format_size

if TYPE_CHECKING:
    from a3gnn.graphs.graph import Graph


def intro(hardware: Hardware, graph: GraphCharacteristics) -> Iterator[str]:
    """Yields a line about the machine, and a line about the graph."""
    device = (
        f", {hardware.device} with {format_size(hardware.device_memory_bytes)}" if hardware.has_device else ", no GPU"
    )
    label = f"{hardware.label}: " if hardware.label else ""
    memory = format_size(hardware.host_memory_bytes)
    yield f"{label}{hardware.cpu}, {count(hardware.num_cores, 'core')}, {memory} memory{device}"
    yield (
        f"{graph.name}: {count(graph.num_nodes, 'node')}, {count(graph.num_edges, 'edge')}, "
        f"{count(graph.num_features, 'feature')}, {count(graph.num_train, 'train seed')}"
    )


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
    from a3gnn.evaluation.own_evaluator import EvaluationPlans  # imports torch

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
