"""`Setting`: everything except the configuration that decides the results of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.hardware import Hardware
from a3gnn.metric import ERRORS, Metric
from a3gnn.task import Task

if TYPE_CHECKING:
    from a3gnn.config import LearningKey, TrainConfig


@dataclass(frozen=True, slots=True)
class Setting:
    """A task on a graph on a machine.

    Attributes:
        task: The model and how it learns.
        graph: Characteristics of the graph.
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

    def curve_key(self, config: TrainConfig) -> LearningKey:
        """Returns the key, as pairs, that is equal for trials that share a learning curve.

        It is the learning key, or the whole configuration for a user's model that does not train alike twice.
        """
        own = self.task.own
        if own is None or own.repeats:
            return config.learning_key()
        return tuple(config.canonical().to_dict().items())

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
