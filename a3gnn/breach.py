"""A limit that a measured configuration breaks, and by how much."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.metric import ACCURACY, Metric
from a3gnn.units import format_size

#: What people call each limit on memory of `Limits`.
MEMORY_NAMES = {"host_bytes": "host memory", "device_bytes": "device memory"}


@dataclass(frozen=True, slots=True)
class Breach:
    """One broken limit.

    Attributes:
        limit: The field of `Limits`: host_bytes, device_bytes or least_accuracy.
        bound: What it allows: bytes at most, or the least quality by the metric.
        found: What was measured, in the same unit; a quality of 0 is one that is not known.
        metric: Of the least quality.
    """

    limit: str
    bound: float
    found: float
    metric: Metric = ACCURACY

    @property
    def name(self) -> str:
        """What is limited: host memory, device memory or accuracy."""
        return MEMORY_NAMES.get(self.limit, self.metric.label)

    @property
    def excess(self) -> float:
        """How far it is broken, as `Limits.violation` has it: memory as a share of the limit, accuracy as it is."""
        return self.bound - self.found if self.limit == "least_accuracy" else self.found / self.bound - 1

    def amount(self) -> str:
        """Returns by how much for people: `12.0 MiB` or `0.8 points`."""
        if self.limit == "least_accuracy":
            return self.metric.show_difference(self.bound - self.found)
        return format_size(self.found - self.bound)

    def short(self) -> str:
        """Returns it for a table: `host memory +12.0 MiB` or `accuracy -0.8 points`."""
        of_quality = self.limit == "least_accuracy"
        if of_quality and not self.found:
            return f"{self.name} unknown"
        return f"{self.name} {'-' if of_quality and self.metric.larger_is_better else '+'}{self.amount()}"

    def describe(self) -> str:
        """Returns it in words: `host memory 12.0 MiB over the limit of 300 MiB`."""
        if self.limit != "least_accuracy":
            return f"{self.name} {self.amount()} over the limit of {format_size(self.bound)}"
        bound, extreme = self.metric.show(self.bound), f"the {self.metric.extreme} allowed"
        if not self.found:
            return f"{self.name} unknown within the time, where {bound} is {extreme}"
        return f"{self.name} {self.amount()} {'under' if self.metric.larger_is_better else 'over'} {extreme}, {bound}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"metric": self.metric.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the breach of `to_dict`, also as former versions wrote it, whose metric was accuracy."""
        return from_fields(cls, dict(fields) | {"metric": Metric.from_dict(fields.get("metric"))})
