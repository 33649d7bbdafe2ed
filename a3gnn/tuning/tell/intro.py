"""The header of a tune: graph, machine, goal and budget, and what its user's own model changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from a3gnn.search import Searched
from a3gnn.search_values import gains_by_bfloat16, has_a_small_table
from a3gnn.setting import Setting
from a3gnn.task import OwnModel, Task
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.units import count, format_duration, format_size

if TYPE_CHECKING:
    from a3gnn.graphs.graph import Graph

#: Width of a line's label.
_LABEL = 10
#: The goal of each priority; {} is the metric.
_GOALS = {
    "time": "soonest at the target {}",
    "throughput": "most epochs per second, no later at the target",
    "memory": "least memory",
    "accuracy": "best validation {} in the baseline's training time",
    "balanced": "speed, memory and {} alike",
    "quality": "best final validation {}",
}

#: Why an own model has no table for a full input aggregation, by what it takes.
_WITHOUT_TABLE = {
    "edge_index": "has no accelerated first layer of a mean, a GCNConv or a GINConv that reads x itself",
    "adjs": 'does not declare aggregates = "mean"',
}


def intro(setting: Setting, request: TuneRequest) -> Iterator[str]:
    """Yields lines about the graph, the machine, the goal and the limits."""
    yield from place(setting)
    goal = _GOALS.get(request.priority.name, f"weights {request.priority.text}").format(setting.metric.label)
    yield _line("goal", goal)
    if request.recipe:
        models = "".join(f"{describe_searched(one)}, " for one in request.search if one.name == "model")
        yield _line("searches", f"{models}its shape, dropout, learning rate, weight decay, width; then the knobs")
    elif request.search:
        yield _line("searches", "the knobs, and " + ", ".join(map(describe_searched, request.search)))
    yield _line("limits", f"{_limits(request)}, budget {describe_budget(request)}")


def describe_searched(one: Searched) -> str:
    """Returns a name of the search with its values: `dropout 0 to 0.7`, `norm none or batch`."""
    shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in one.values]
    return f"{one.name} {shown[0]} to {shown[-1]}" if one.is_range else f"{one.name} {' or '.join(shown)}"


def place(setting: Setting, *, with_model: bool = True) -> Iterator[str]:
    """Yields lines about the graph, the model (unless the result prints it) and the machine."""
    graph, hardware, task = setting.graph, setting.hardware, setting.task
    edges = count(graph.num_edges, "edge") + (f" of {count(graph.relations, 'relation')}" if graph.relations else "")
    yield _line("graph", f"{graph.name}, {count(graph.num_nodes, 'node')}, {edges}")
    most = "up to " if graph.relations and graph.num_features else ""
    seeds = count(graph.num_train, f"train {'link' if graph.target == 'links' else 'edge' if graph.ends else 'node'}")
    yield _line("", f"{most}{count(graph.num_features, 'feature')}, {seeds}")
    if with_model:
        yield _line("model", task.describe())
    device = f"{hardware.device} with {format_size(hardware.device_memory_bytes)}" if hardware.has_device else "no GPU"
    label = f"{hardware.label}: " if hardware.label else ""
    memory = format_size(hardware.host_memory_bytes)
    yield _line("machine", f"{label}{hardware.cpu}, {count(hardware.num_cores, 'core')}, {memory}, {device}")


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{text}"


def _limits(request: TuneRequest) -> str:
    limit = request.memory_limit
    if limit is None:
        return "no memory limit"
    return f"{format_size(limit)} of memory" if isinstance(limit, int) else "the baseline's memory"


def describe_budget(request: TuneRequest) -> str:
    """Returns the budget as text: `5 min`, or `20 trials`."""
    budget = request.budget
    return count(budget, "trial") if isinstance(budget, int) else format_duration(budget)


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
    if own.native:
        yield f"{count(own.native, 'convolution')} run on a3gnn's kernels, as after accelerate(model)"
    yield from _left_out(setting, own)


def _left_out(setting: Setting, own: OwnModel) -> Iterator[str]:
    """Yields why knobs are left out that the space would contain for a built-in model."""
    built_in = dataclasses.replace(setting, task=Task(fanouts=setting.task.fanouts))
    if has_a_small_table(built_in) and not has_a_small_table(setting):
        yield (f"input_aggregation is left out: this model {_WITHOUT_TABLE[own.takes]}")
    if gains_by_bfloat16(built_in) and not gains_by_bfloat16(setting):
        yield "compute_dtype is left out: this model takes adjs, and torch has no such products in bfloat16 on the CPU"
