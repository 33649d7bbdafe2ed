"""`Trial`: one measurement of a tune, with what was predicted of it."""

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


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to measure next.

    Attributes:
        reason: Why: default, best, front, closest, smallest.
        config: The configuration.
    """

    reason: str
    config: TrainConfig

    @property
    def for_priority(self) -> bool:
        """Whether it is there to be the best by the priority, not to find out about the rest of the front."""
        return self.reason == "best"


#: Reasons of trials that no budget counts: the default's, and that of the smallest memory.
UNCOUNTED = ("default", "smallest")
#: What was predicted of one configuration: by metric, its mean, low and high; metrics that can't be are left out.
Predicted = dict[str, dict[str, float]]


def predicted_row(prediction: Prediction, row: int) -> Predicted:
    """Returns `row` of `prediction` as JSON types, without seconds to accuracy where these are no seconds."""
    return {
        metric: {bound: float(getattr(prediction, bound)[row, j]) for bound in ("mean", "low", "high")}
        for j, metric in enumerate(METRICS)
        if metric != "seconds_to_accuracy" or prediction.budget_s is not None
    }


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial of a tune.

    Attributes:
        reason: Why it was made, as its `Proposal` says.
        predicted: What was predicted before it ran.
        measurement: What it found, as it was measured.
        drift: The machine's speed when it ran, over that at which the reference was measured, as far as is known.

    Raises:
        UsageError: The drift is no speed's ratio.
    """

    reason: str
    predicted: Predicted
    measurement: Measurement
    drift: float = 1.0

    def __post_init__(self) -> None:
        check_drift(self.drift)

    @property
    def counts(self) -> bool:
        """Whether a budget counts it."""
        return self.reason not in UNCOUNTED

    @property
    def metrics(self) -> Metrics | None:
        """What is judged of it: its metrics at the speed that the reference was measured at; None where it failed."""
        metrics = self.measurement.metrics
        return None if metrics is None else at_reference_pace(metrics, self.drift)

    @property
    def undrifted(self) -> Measurement:
        """Its measurement with what is judged of it in place of what was measured."""
        return dataclasses.replace(self.measurement, outcome=self.metrics or self.measurement.outcome)

    def judged_by(self, timings: Sequence[SpeedTiming]) -> Self:
        """Returns the trial with the drift that `timings` say; as it is where it was made before the first of them.

        What a store served may have been; then nobody knows how fast the machine was.
        """
        drift = drift_at(self.measurement.created, timings)
        return self if drift is None or drift == self.drift else dataclasses.replace(self, drift=drift)

    def to_dict(self) -> dict[str, Any]:
        """Returns the trial as JSON types."""
        own = {"reason": self.reason, "predicted": self.predicted, "drift": self.drift}
        return own | {"measurement": self.measurement.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the trial of `to_dict`; one of an older version has no drift, and is judged as it was measured."""
        measurement = Measurement.from_dict(fields["measurement"])
        return cls(fields["reason"], fields["predicted"], measurement, fields.get("drift", 1.0))


class JudgedTrial(NamedTuple):
    """A trial that succeeded, its metrics as they are judged, and what these come to at equal training time."""

    trial: Trial
    metrics: Metrics
    figures: Figures
