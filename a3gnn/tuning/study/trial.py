"""`Proposal`: a configuration to measure next; `Trial`: its measurement, with the prediction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.measurement import METRICS, Measurement, Metrics
from a3gnn.prediction import Prediction
from a3gnn.tuning.study.drift import SpeedTiming, at_reference_pace, check_drift, drift_at

#: Reasons of trials that do not count against the budget.
UNCOUNTED = ("default", "smallest")
#: The prediction of one configuration: mean, low and high by metric; metrics that can't be predicted are left out.
Predicted = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration to measure next.

    Attributes:
        reason: default, best, front, closest or smallest.
        config: The configuration.
    """

    reason: str
    config: TrainConfig

    @property
    def for_priority(self) -> bool:
        """Whether it is proposed as the best by the priority, not to explore the rest of the front."""
        return self.reason == "best"


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial of a tune.

    Attributes:
        reason: The reason of its `Proposal`.
        predicted: The prediction before it ran.
        measurement: The result as measured, not corrected for drift.
        drift: The machine's speed during the trial over its speed when the reference was measured; 1 if not known.

    Raises:
        UsageError: The drift is not finite, or not positive.
    """

    reason: str
    predicted: Predicted
    measurement: Measurement
    drift: float = 1.0

    def __post_init__(self) -> None:
        check_drift(self.drift)

    @property
    def counts(self) -> bool:
        """Whether it counts against the budget."""
        return self.reason not in UNCOUNTED

    @property
    def metrics(self) -> Metrics | None:
        """Its metrics, corrected to the machine's speed when the reference was measured; None if it failed."""
        metrics = self.measurement.metrics
        return None if metrics is None else at_reference_pace(metrics, self.drift)

    @property
    def undrifted(self) -> Measurement:
        """Its measurement with the drift-corrected metrics."""
        return dataclasses.replace(self.measurement, outcome=self.metrics or self.measurement.outcome)

    def judged_by(self, timings: Sequence[SpeedTiming]) -> Self:
        """Returns the trial with the drift from `timings`, or unchanged if it ran before the first of them.

        A trial from a store may have; nobody knows how fast the machine was then.
        """
        drift = drift_at(self.measurement.created, timings)
        return self if drift is None or drift == self.drift else dataclasses.replace(self, drift=drift)

    def to_dict(self) -> dict[str, Any]:
        """Returns the trial as JSON types."""
        own = {"reason": self.reason, "predicted": self.predicted, "drift": self.drift}
        return own | {"measurement": self.measurement.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the trial of `to_dict`; one of an older version has no drift, and stays uncorrected."""
        measurement = Measurement.from_dict(fields["measurement"])
        return cls(fields["reason"], fields["predicted"], measurement, fields.get("drift", 1.0))


class JudgedTrial(NamedTuple):
    """A successful trial, its drift-corrected metrics, and its figures at equal training time."""

    trial: Trial
    metrics: Metrics
    figures: Figures


def predicted_row(prediction: Prediction, row: int) -> Predicted:
    """Returns `row` of `prediction` as JSON types, without seconds to accuracy if they are not in seconds."""
    return {
        metric: {bound: float(getattr(prediction, bound)[row, j]) for bound in ("mean", "low", "high")}
        for j, metric in enumerate(METRICS)
        if metric != "seconds_to_accuracy" or prediction.budget_s is not None
    }
