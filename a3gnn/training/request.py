"""`TrainRequest`: the arguments of `train`, with missing ones filled in from a tuned.json or defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from a3gnn import units
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.evaluation.choose_metric import notify_edges, with_metric
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.machine.host import host_with
from a3gnn.metric import AUTO, ROW_MODELS
from a3gnn.notify import waiting
from a3gnn.parts.graph import check_over_parts
from a3gnn.parts.opening import graph_of
from a3gnn.task import Task, names_factory
from a3gnn.threads import wait_policy
from a3gnn.training.describe import described
from a3gnn.training.tuned import TunedConfig

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """A configuration, a task and a graph to train on."""

    graph: Graph  # opened by memory map
    config: TrainConfig  # how to train
    task: Task  # what to train
    tuned: TunedConfig | None  # the contents of the tuned.json, if the configuration comes from one

    @property
    def target(self) -> float | None:
        """The target validation quality of the tune, if it used this graph and metric."""
        if self.tuned is None or self.tuned.setting.graph.fingerprint != self.graph.fingerprint:
            return None
        return self.tuned.target_accuracy if self.tuned.setting.task.metric == self.task.metric else None

    @property
    def row_references(self) -> dict[str, Mapping[str, float]]:
        """The qualities of models without a graph network that the tune measured, if it used this graph and split."""
        tuned = self.tuned
        if tuned is None or tuned.setting.graph.fingerprint != self.graph.fingerprint:
            return {}
        one, other = ((task.metric, task.loss, task.class_weights, task.seed) for task in (tuned.task, self.task))
        known = tuned.heuristics or {}
        return {name: known[name] for name in ROW_MODELS if name in known and one == other}

    @classmethod
    def of(
        cls,
        config: TrainConfig | TunedConfig | str | Path,
        dataset: GraphLike | None,
        task: Task | None,
        model: str | None,
        metric: str | None,
        notify: Callable[[str], None],
        split: Split | None = None,
    ) -> Self:
        """Returns the request for `config`; a tuned.json replaces arguments that are None.

        `model` and `metric` (see `with_metric`) override the task's; `split` overrides the dataset's. Passes a warning
        to `notify` if the tune used another graph, machine or OpenMP wait policy, or ended its trainings early.

        Raises:
            UsageError: There is no dataset, or an option is not available for a graph in parts.
            ConfigError: The tuned.json is missing, broken or foreign.
            GraphError: The graph can't be read or used.
            GraphServerError: A graph server can't be reached, or refuses.
        """
        tuned = None
        if not isinstance(config, TrainConfig):
            tuned = config if isinstance(config, TunedConfig) else TunedConfig.read(config)
        source = dataset if dataset is not None else tuned.spec if tuned else None
        if source is None:
            raise UsageError("train needs a dataset: give one, or a tuned.json, which names its own")
        graph = graph_of(source, notify, split)
        for note in graph.notes:
            notify(note)
        graph = graph.on_disk()
        if task is None and tuned is None and metric is None:
            metric = AUTO
        given = task or (tuned.task if tuned else Task())
        if model is not None and names_factory(model):  # which takes the values of a search as arguments
            given, model = given.with_model(model), None
        if isinstance(config, TrainConfig):
            given = config.task_of(given)
        judged = with_metric(given if model is None else given.with_model(model), metric, graph, notify)
        chosen = config if tuned is None else tuned.config
        assert isinstance(chosen, TrainConfig)
        if graph.is_parted:
            check_over_parts(chosen, judged)
        if tuned is None:
            return cls(graph, chosen, judged, None)
        for warning in _mismatches(tuned, graph):
            notify(warning)
        if tuned.unsettled:
            notify(f"the tune {tuned.unsettled}")
        return cls(graph, chosen, judged, tuned)

    def described(self, notify: Callable[[str], None]) -> Self:
        """Returns the request with a current description of a user's model; warns if the model changed since the tune.

        Raises:
            UsageError: There is no such model.
            ModelError: It can't be imported, built or called.
        """
        if not self.task.is_own:
            return self
        line = f"building {self.task.model} and calling it on a mini-batch takes long; Ctrl-C stops it"
        with waiting(notify, line):
            task = described(self.task, self.graph)
        notify_edges(task, self.graph, notify)
        before = None if self.tuned is None else self.tuned.task
        if before is not None and before.model == task.model and not task.is_same_model(before):
            notify(
                f"warning: {task.model} or one of its imports has changed since the tune; it may be slower, or take "
                "more memory, than tuned.json promises"
            )
        return dataclasses.replace(self, task=task)


def _mismatches(tuned: TunedConfig, graph: Graph) -> list[str]:
    found, before = [], tuned.setting
    if before.graph.fingerprint != graph.fingerprint:
        found.append(
            f"warning: the configuration was tuned for the graph {before.graph.name}, but this one is {graph.name}; "
            "it may be slower, or take more memory, than tuned.json says"
        )
    here = this_machine(before.hardware.profile)
    if not before.hardware.may_be(here):
        found.append(
            f"warning: the configuration was tuned on another machine ({_short(before.hardware)}), but this one is "
            f"{_short(here)}; tune again on this machine"
        )
    policy = wait_policy.here()
    if tuned.wait_policy is not None and tuned.wait_policy != policy:
        found.append(
            f"warning: the tune measured with {_named(tuned.wait_policy)}, but this process has {_named(policy)}, so "
            f"its speed may differ; set {wait_policy.VARIABLE} before Python starts"
        )
    return found


def _named(policy: str) -> str:
    return f"{wait_policy.VARIABLE}={policy}" if policy else f"no {wait_policy.VARIABLE} (OpenMP's own)"


def this_machine(limits: MachineProfile) -> Hardware:
    """Returns this machine with the given `limits`, without probing; the fingerprint does not depend on them."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.cuda.get_device_properties(0) if count else None
    if device is None:
        return host_with(limits)
    return host_with(limits, device.name, count, device.total_memory)


def _short(hardware: Hardware) -> str:
    gib = round(hardware.host_memory_bytes / 2**30)
    return f"{hardware.cpu}, {units.count(hardware.num_cores, 'core')}, {gib} GiB, {hardware.device or 'no GPU'}"
