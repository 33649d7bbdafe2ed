"""What a trial is asked to do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.setting import Setting


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """How long a trial warms up, is timed and trains, and what it may use; `docs/measurement.md` explains each.

    Attributes:
        accuracy_epochs: Epochs trained for the accuracy.
        warmup_batches: Mini-batches before the timed ones.
        timed_seconds: Seconds of timed mini-batches, at least.
        least_timed_batches: Timed mini-batches, at least; short epochs are repeated.
        timeout_s: Seconds after which a trial is ended.
        host_limit_bytes: Anonymous memory at which it is ended, or None.
        device_limit_bytes: Device memory that it may take, context included, or None.

    Raises:
        UsageError: A value is out of range.
    """

    accuracy_epochs: int
    warmup_batches: int = 3
    timed_seconds: float = 2.0
    least_timed_batches: int = 5
    timeout_s: float = 600.0
    host_limit_bytes: int | None = None
    device_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("accuracy_epochs", 1), ("warmup_batches", 0), ("least_timed_batches", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} must be >= {least}, got {getattr(self, name)}")
        if not (math.isfinite(self.timed_seconds) and self.timed_seconds >= 0):
            raise UsageError(f"timed_seconds must be finite and >= 0, got {self.timed_seconds}")
        for name in ("timeout_s", "host_limit_bytes", "device_limit_bytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be positive, got {value}")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracies at the best validation epoch, in [0, 1], and the epochs that were trained to find it."""

    test: float
    val: float
    epochs: int


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """One trial, complete.

    Attributes:
        config: The canonical configuration.
        setting: What to train, on which graph and machine.
        graph_folder: Where the converted graph lies.
        plan: How to measure.
        known_accuracy: The accuracy of a run that trains bit-identically, if one is stored: then none is trained.
    """

    config: TrainConfig
    setting: Setting
    graph_folder: str
    plan: TrialPlan
    known_accuracy: Accuracy | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the request as one JSON object."""
        return {
            "config": self.config.to_dict(),
            **self.setting.to_dict(),
            "graph_folder": self.graph_folder,
            "plan": dataclasses.asdict(self.plan),
            "known_accuracy": dataclasses.asdict(self.known_accuracy) if self.known_accuracy else None,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the request of `to_dict`."""
        known = fields["known_accuracy"]
        return cls(
            config=TrainConfig.from_dict(fields["config"]),
            setting=Setting.from_dict(fields),
            graph_folder=fields["graph_folder"],
            plan=from_fields(TrialPlan, fields["plan"]),
            known_accuracy=from_fields(Accuracy, known) if known else None,
        )
