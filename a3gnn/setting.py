"""`Setting`: everything except the configuration that decides the results of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.hardware import Hardware
from a3gnn.metric import ERRORS, Metric
from a3gnn.task import Task


@dataclass(frozen=True, slots=True)
class Setting:
    """A task on a graph on a machine.

    Attributes:
        task: The model and how it learns.
        hardware: The machine.
    """

    task: Task
    graph: GraphCharacteristics
    hardware: Hardware

    @property
    def metric(self) -> Metric:
        """The metric that models are judged by."""
        return Metric(self.task.metric, self.graph.label_spread if self.task.metric in ERRORS else None)

    def key(self) -> tuple[str, str, str]:
        """Returns a key of the setting: the task's key, and the fingerprints of the graph and the machine."""
        return self.task.key(), self.graph.fingerprint, self.hardware.fingerprint

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {"task": self.task.to_dict(), "graph": self.graph.to_dict(), "hardware": self.hardware.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the setting of `to_dict`; other fields are ignored.

        Raises:
            KeyError: A field is missing.
            UsageError: A field is out of range.
        """
        return cls(
            task=Task.from_dict(fields["task"]),
            graph=GraphCharacteristics.from_dict(fields["graph"]),
            hardware=Hardware.from_dict(fields["hardware"]),
        )


def setting_key(setting: Setting) -> str:
    """Returns the key of a setting: task, graph and machine."""
    return f"{task_graph_key(setting.task, setting.graph)}|{setting.hardware.fingerprint}"


@lru_cache(maxsize=1024)  # a fit asks once per row and fold
def task_graph_key(task: Task, graph: GraphCharacteristics) -> str:
    """Returns the key of a task on a graph."""
    return f"{task.key()}|{graph.fingerprint}"
