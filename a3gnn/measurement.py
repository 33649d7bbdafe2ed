"""What a trial found, its outcome (`a3gnn.outcome`), with everything that it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import LearningKey, TrainConfig
from a3gnn.learning_curve import NO_CURVE, LearningCurve
from a3gnn.outcome import Failure, FailureKind, Metrics, StageSeconds
from a3gnn.setting import Setting

__all__ = [
    "MEASUREMENT_VERSION",
    "METRICS",
    "Failure",
    "FailureKind",
    "Measurement",
    "Metrics",
    "StageSeconds",
    "default_accuracy_epochs",
    "distinct",
    "keep_longest",
]

#: Columns of every prediction, in this order.
METRICS: tuple[str, ...] = (
    *("throughput_epochs_per_s", "peak_device_bytes", "peak_host_bytes", "val_accuracy", "seconds_to_accuracy"),
)

#: Raised when a change of the engine or of the protocol makes older measurements incomparable.
MEASUREMENT_VERSION = 7

#: About how many seeds a trial trains on for its accuracy, and the most epochs that it may take for them. Guesses.
_ACCURACY_SEEDS = 50_000
_MAX_ACCURACY_EPOCHS = 20
#: Prefix of the ids that are hashes of a row's content, for rows that were stored without an id.
_CONTENT_PREFIX = "content:"


def default_accuracy_epochs(graph: GraphCharacteristics) -> int:
    """Returns the epochs that trials on `graph` train for their accuracy: fewer where there are more train seeds."""
    return min(_MAX_ACCURACY_EPOCHS, max(1, round(_ACCURACY_SEEDS / max(graph.num_train, 1))))


@dataclass(frozen=True, slots=True)
class Measurement:
    """One trial with everything that it depends on.

    Attributes:
        config: The canonical configuration that ran.
        setting: What was trained, on which graph and machine.
        outcome: What it reached, or why it did not.
        accuracy_budget: In version 2: epochs that the trial was asked to train for its accuracy; 0 since.
        seconds: What the trial took, start of its process included, waiting for the machine to be free left out.
        version: `MEASUREMENT_VERSION` when it was made.
        created: When, ISO 8601, UTC.
        id: What copies of it share and repetitions don't. Rows that were stored without one get a hash of what they
            hold, so that copies of such a row share that; pass "" for it.
    """

    config: TrainConfig
    setting: Setting
    outcome: Metrics | Failure
    accuracy_budget: int
    seconds: float
    version: int
    created: str
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id or self.id.startswith(_CONTENT_PREFIX):  # the hash is always of what this object holds
            object.__setattr__(self, "id", self._content_id())

    @property
    def metrics(self) -> Metrics | None:
        """The metrics, or None if the trial failed."""
        return self.outcome if isinstance(self.outcome, Metrics) else None

    @property
    def failed_by_chance(self) -> bool:
        """Whether it is a transient failure."""
        return isinstance(self.outcome, Failure) and self.outcome.transient

    def to_dict(self) -> dict[str, Any]:
        """Returns the measurement as one JSON object."""
        return {
            "config": self.config.to_dict(),
            **self.setting.to_dict(),
            "metrics" if isinstance(self.outcome, Metrics) else "failure": self.outcome.to_dict(),
            "accuracy_budget": self.accuracy_budget,
            "seconds": self.seconds,
            "version": self.version,
            "created": self.created,
            "id": self.id,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the measurement of `to_dict`."""
        rest = dict(fields)
        metrics, failure = rest.pop("metrics", None), rest.pop("failure", None)
        rest["outcome"] = Metrics.from_dict(metrics) if metrics is not None else Failure.from_dict(failure or {})
        rest["config"] = TrainConfig.from_dict(rest["config"])
        rest["setting"] = Setting.from_dict(fields)
        for name in Setting.__slots__:
            del rest[name]
        return from_fields(cls, rest)

    def _content_id(self) -> str:
        """Returns a hash of what distinguishes rows that were stored without an id."""
        asked = (self.accuracy_budget, self.version, self.created, self.seconds)
        if isinstance(self.outcome, Metrics):
            found: tuple[object, ...] = (
                self.outcome.throughput_epochs_per_s,
                self.outcome.peak_host_bytes,
                self.outcome.test_accuracy,
            )
        else:
            found = (str(self.outcome.kind), self.outcome.detail, self.outcome.peak_host_bytes, self.outcome.limit)
        text = json.dumps([self.config.key(), *self.setting.key(), *asked, *found])
        return _CONTENT_PREFIX + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def keep_longest(curves: dict[LearningKey, LearningCurve], measurement: Measurement) -> None:
    """Keeps the curve of `measurement` in `curves`, if it has one that goes further than that there.

    Args:
        curves: The longest so far of each `Setting.curve_key`, of one setting; it is changed.
        measurement: Of the same setting.
    """
    curve = measurement.metrics and measurement.metrics.curve
    key = measurement.setting.curve_key(measurement.config)
    if curve and curve.trained > curves.get(key, NO_CURVE).trained:
        curves[key] = curve


def distinct(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Returns `measurements` without copies, which have the same id: the first of each. Repetitions all stay."""
    found: dict[str, Measurement] = {}
    for measurement in measurements:
        found.setdefault(measurement.id, measurement)
    return list(found.values())
