"""Measures the machine's speed during a tune by timing one configuration, and corrects trials for it.

Drift is the machine's current speed over its speed when the reference was measured. Other tenants of a host can halve
it within minutes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from a3gnn.errors import UsageError
from a3gnn.measurement import Metrics, StageSeconds

#: Trials after which the reference is timed again. Guess.
TRIALS_BETWEEN = 4


@dataclass(frozen=True, slots=True)
class SpeedTiming:
    """A timing of the reference's configuration.

    Attributes:
        created: When it began, ISO 8601, UTC.
        drift: The machine's speed then, over its speed when the reference was measured.

    Raises:
        UsageError: `created` is not a time, or `drift` is not finite and positive.
    """

    created: str
    drift: float

    def __post_init__(self) -> None:
        check_drift(self.drift)
        _seconds(self.created)


def check_drift(drift: float) -> None:
    """Raises a `UsageError` if `drift` is not finite and positive."""
    if not (math.isfinite(drift) and drift > 0):
        raise UsageError(f"drift must be finite and > 0, got {drift}; 1 is a machine at the reference's speed")


def differs(drift: float) -> bool:
    """Whether `drift` differs from 1 when printed with two digits."""
    return f"{drift:.2g}" != "1"


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
