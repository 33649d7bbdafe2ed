"""`Setting`: all that decides what a configuration reaches, beside the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import Task
from a3gnn.hardware import Hardware


@dataclass(frozen=True, slots=True)
class Setting:
    """A task on a graph on a machine.

    Attributes:
        task: What is trained.
        graph: The graph in numbers.
        hardware: The machine.
    """

    task: Task
    graph: GraphCharacteristics
    hardware: Hardware
