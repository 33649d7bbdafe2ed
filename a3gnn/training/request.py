"""What `train` is asked for, with the gaps filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from a3gnn.config import Task, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.as_graph import as_graph
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware, HardwareLimits, available_cores, cpu_name, host_memory_bytes
from a3gnn.training.tuned import TunedConfig

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """A configuration, a task and a graph to train on.

    Attributes:
        graph: Opened by memory map.
        config: How.
        task: What.
        tuned: What the configuration was tuned for, if it comes from a tuned.json.
    """

    graph: Graph
    config: TrainConfig
    task: Task
    tuned: TunedConfig | None

    @classmethod
    def of(
        cls,
        config: TrainConfig | str | Path,
        dataset: GraphLike | None,
        task: Task | None,
        notify: Callable[[str], None],
    ) -> Self:
        """Returns the request for `config`; what a tuned.json says stands in for what is None.

        Whether the configuration was tuned for another graph or another machine is said through `notify`.

        Raises:
            UsageError: There is no dataset to be found.
            ConfigError: The tuned.json is missing, broken or foreign.
            GraphError: The graph can't be read or used.
        """
        tuned = None if isinstance(config, TrainConfig) else TunedConfig.read(config)
        source = dataset if dataset is not None else tuned.spec if tuned else None
        if source is None:
            raise UsageError("train needs a dataset: give one, or a tuned.json, which names its own")
        graph = as_graph(source)
        for note in graph.notes:
            notify(note)
        graph = graph.on_disk()
        if tuned is None:
            assert isinstance(config, TrainConfig)
            return cls(graph, config, task or Task(), None)
        for warning in _mismatches(tuned, graph):
            notify(warning)
        return cls(graph, tuned.config, task or tuned.task, tuned)


def _mismatches(tuned: TunedConfig, graph: Graph) -> list[str]:
    found = []
    if tuned.graph.fingerprint != graph.fingerprint:
        found.append(
            f"warning: the configuration was tuned for the graph {tuned.graph.name}, this one is {graph.name}; it may "
            "be slower, or take more memory, than what its tune measured"
        )
    here = this_machine(tuned.hardware.limits)
    if tuned.hardware.fingerprint != here.fingerprint:
        found.append(
            f"warning: the configuration was tuned on another machine ({_short(tuned.hardware)}), this one is "
            f"{_short(here)}; tune again here for what this machine can do"
        )
    return found


def this_machine(limits: HardwareLimits) -> Hardware:
    """Returns this machine with `limits`, which are not probed; its fingerprint leaves them out."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.cuda.get_device_properties(0) if count else None
    return Hardware(
        cpu=cpu_name(),
        num_cores=available_cores(),
        host_memory_bytes=host_memory_bytes(),
        device=device.name if device else "",
        num_devices=count,
        device_memory_bytes=device.total_memory if device else 0,
        limits=limits,
    )


def _short(hardware: Hardware) -> str:
    gib = round(hardware.host_memory_bytes / 2**30)
    return f"{hardware.cpu}, {hardware.num_cores} cores, {gib} GiB, {hardware.device or 'no GPU'}"
