"""What a person asked `tune` for."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import Task
from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware
from a3gnn.objectives import Limits, Priority
from a3gnn.space import SearchSpace


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """The options of a tune.

    Attributes:
        spec: The graph, as `Graph.load` takes it.
        task: What is trained.
        priority: What counts among the configurations that keep the limits.
        memory_limit: Bytes of the device where there is one, of the host otherwise; None for no limit.
        host_memory_limit: Bytes of the host, where there is a device.
        max_accuracy_drop: Points of test accuracy that may be lost against the default configuration.
        budget: Seconds (float), or probes after the default configuration (int).
        engine: The searcher.
        fixed: Knobs held at a value.
        ranges: Knobs cut to (low, high).
        seed: Decides every random choice of the tune; the task's seed decides those of training.
        accuracy_epochs: Epochs that a trial trains for its accuracy; None derives it from the graph's size.

    Raises:
        UsageError: A value breaks its law.
    """

    spec: str
    task: Task
    priority: Priority
    memory_limit: int | None
    host_memory_limit: int | None
    max_accuracy_drop: float
    budget: float | int
    engine: str
    fixed: tuple[tuple[str, Any], ...] = ()
    ranges: tuple[tuple[str, Any, Any], ...] = ()
    seed: int = 0
    accuracy_epochs: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_accuracy_drop) and self.max_accuracy_drop >= 0):
            raise UsageError(f"--max-accuracy-drop must be >= 0 points, got {self.max_accuracy_drop}")
        if not (math.isfinite(self.budget) and self.budget > 0):
            raise UsageError(f"--budget must be a positive duration or number of probes, got {self.budget}")
        if self.accuracy_epochs is not None and self.accuracy_epochs < 1:
            raise UsageError(f"--accuracy-epochs must be >= 1, got {self.accuracy_epochs}")
        if self.seed < 0:
            raise UsageError(f"--seed must be >= 0, got {self.seed}")

    def space(self, graph: GraphCharacteristics, hardware: Hardware) -> SearchSpace:
        """Returns the space of `graph` on `hardware` with the fixed knobs and the ranges applied."""
        space = SearchSpace.for_machine(graph, hardware)
        for name, low, high in self.ranges:
            space = space.restrict(name, low, high)
        for name, value in self.fixed:
            space = space.fix(name, value)
        return space

    def limits(self, hardware: Hardware, reference_accuracy: float | None) -> Limits:
        """Returns the limits on `hardware`, with the least accuracy that the reference allows."""
        host, device = self.memory_limit, None
        if hardware.has_device:
            host, device = self.host_memory_limit, self.memory_limit
        elif self.host_memory_limit is not None:
            host = min(self.host_memory_limit, host or self.host_memory_limit)
        least = None if reference_accuracy is None else reference_accuracy - self.max_accuracy_drop / 100
        return Limits(host, device, least)

    def to_dict(self) -> dict[str, Any]:
        """Returns the options as JSON types."""
        return dataclasses.asdict(self) | {"task": self.task.to_dict()}
