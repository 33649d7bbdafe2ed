"""Spaces in which nothing can run, or that can't be searched, found before anything is measured."""

from __future__ import annotations

from a3gnn.config import DYNAMIC_POLICIES, STATIC_POLICIES
from a3gnn.errors import UsageError
from a3gnn.search.grid import check_enumerable
from a3gnn.search_values import reads_a_table
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace


def refuse_impossible(space: SearchSpace, engine: str, setting: Setting) -> None:
    """Raises a `UsageError` where no value of a knob can run in `setting`, or `engine` can't search."""
    graph = setting.graph
    if not setting.hardware.has_device and "cpu" not in space.knob("sampling_device").values:
        raise UsageError(
            "sampling_device=cuda needs a CUDA GPU, and this machine has none; leave it out, or fix it to cpu"
        )
    policies = space.knob("cache_policy").values
    if graph.sparse_features and set(policies) <= set(DYNAMIC_POLICIES):
        raise UsageError(
            f"cache_policy={policies[0]} needs dense features, and those of {graph.name} are sparse; "
            f"use one of {', '.join(STATIC_POLICIES)}"
        )
    least_parts = min(space.knob("num_partitions").values)
    if least_parts > graph.num_nodes:
        raise UsageError(
            f"num_partitions must be at most {graph.num_nodes:,}, the nodes of {graph.name}; got {least_parts:,}"
        )
    if not reads_a_table(setting.task) and space.knob("input_aggregation").values == ("full",):
        raise UsageError(
            "input_aggregation=full needs a model whose input layer learns nothing before it aggregates "
            "(sage, gcn, gin, or one of your own that takes adjs and declares aggregates = 'mean'), got "
            f"{setting.task.model}; leave it out, or fix it to sampled"
        )
    if engine == "exhaustive":
        check_enumerable(space)
