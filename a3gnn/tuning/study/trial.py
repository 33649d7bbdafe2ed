"""Trials, as proposed, measured and judged; and the machine's drift, by which measurements at different times compare.

Drift is the machine's current speed over its speed when the reference was measured. Other tenants of a host can halve
it within minutes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.measurement import METRICS, Measurement, Metrics, StageSeconds
from a3gnn.prediction import Prediction

#: The reason of a trial of a race for quality.
RACE = "race"
#: The reason of a trial that trains the baseline on, and the reasons of all trials of the baseline.
LONGER = "longer"
BASELINE = ("default", LONGER)
#: Reasons of trials that do not count against the budget.
UNCOUNTED = (*BASELINE, "smallest")
#: The prediction of one configuration: mean, low and high by metric; metrics that can't be predicted are left out.
Predicted = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration to measure next.

    Attributes:
        reason: default, longer, enqueued, best, front, race or smallest; closest in tunes of older versions.
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


@dataclass(frozen=True, slots=True)
class SpeedTiming:
    """A timing of the reference's configuration.

    Raises:
        UsageError: `created` is not a time, or `drift` is not finite and positive.
    """

    created: str  # when it began, ISO 8601, UTC
    drift: float  # the machine's speed then, over its speed when the reference was measured

    def __post_init__(self) -> None:
        check_drift(self.drift)
        _seconds(self.created)


def check_drift(drift: float) -> None:
    """Raises a `UsageError` if `drift` is not finite and positive."""
    if not (math.isfinite(drift) and drift > 0):
        raise UsageError(f"drift must be finite and > 0, got {drift}; 1 is a machine at the reference's speed")


def drift_at(created: str, timings: Sequence[SpeedTiming]) -> float | None:
    """Returns the machine's drift at the time `created`, ISO 8601; None before the first of `timings`.

    Between two timings, the logarithm of the drift is interpolated in time. After the last timing, its drift holds.
    Measured on a simulated load of 25 %, with correlation times of one minute to two seconds (tests/tuning): the root
    mean square error is 0.11 to 0.31, against 0.16 to 0.35 with only the timing before a trial.
    """
    if not timings or _seconds(created) < _seconds(timings[0].created):
        return None
    times = [_seconds(one.created) for one in timings]
    return float(np.exp(np.interp(_seconds(created), times, np.log([one.drift for one in timings]))))


def at_reference_pace(metrics: Metrics, drift: float) -> Metrics:
    """Returns `metrics` as they would have been at the machine's speed when the reference was measured.

    Divides epochs per second by `drift`, and multiplies the seconds of set-up, stages and epoch overhead by it. The
    seconds of the curve stay, because they are the cost of the trial itself.
    """
    if drift == 1:
        return metrics
    stages = dataclasses.asdict(metrics.stage_seconds)
    return dataclasses.replace(
        metrics,
        throughput_epochs_per_s=metrics.throughput_epochs_per_s / drift,
        throughput_replicates=tuple(one / drift for one in metrics.throughput_replicates),
        setup_seconds=metrics.setup_seconds * drift,
        epoch_overhead_s=metrics.epoch_overhead_s * drift,
        stage_seconds=StageSeconds(**{name: seconds * drift for name, seconds in stages.items()}),
    )


def _seconds(created: str) -> float:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError as error:
        raise UsageError(f"created must be a time in ISO 8601, got {created!r}") from error
