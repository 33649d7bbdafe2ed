"""`Trial`: one measurement of a tune, with what was predicted of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from a3gnn.figures import Figures
from a3gnn.measurement import METRICS, Measurement, Metrics
from a3gnn.prediction import Prediction

#: What was predicted of one configuration: by metric, its mean, low and high.
Predicted = dict[str, dict[str, float]]


def predicted_row(prediction: Prediction, row: int) -> Predicted:
    """Returns `row` of `prediction` as JSON types."""
    return {
        metric: {bound: float(getattr(prediction, bound)[row, j]) for bound in ("mean", "low", "high")}
        for j, metric in enumerate(METRICS)
    }


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial of a tune.

    Attributes:
        reason: Why it was made, as its `Proposal` says.
        predicted: What was predicted before it ran.
        measurement: What it found.
    """

    reason: str
    predicted: Predicted
    measurement: Measurement

    @property
    def counts(self) -> bool:
        """Whether a budget counts it: the default's trial and that of the smallest memory are not."""
        return self.reason not in ("default", "smallest")

    def to_dict(self) -> dict[str, Any]:
        """Returns the trial as JSON types."""
        return {"reason": self.reason, "predicted": self.predicted, "measurement": self.measurement.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the trial of `to_dict`."""
        return cls(fields["reason"], fields["predicted"], Measurement.from_dict(fields["measurement"]))


class JudgedTrial(NamedTuple):
    """A trial that succeeded, what it measured, and what that comes to at equal training time."""

    trial: Trial
    metrics: Metrics
    figures: Figures
